/* A client of hook_surface_driver.c: every call once with a failure of the driver, which must change
 * nothing, and once with success. The first argument selects the part. */
#include "hook_client.h"
#include "hook_surface.h"

static int *next_result, *calls;

/* The call fails with 1, then succeeds; each reaches the driver once. */
#define BOTH(call)                                                                                 \
    do {                                                                                           \
        int before_ = *calls;                                                                      \
        *next_result = 1;                                                                          \
        if ((call) != 1 || (call) != 0 || *calls - before_ != 2)                                   \
            DIE("line %d: %s", __LINE__, #call);                                                   \
    } while (0)

static void *library;
#define F(name, ...) int (*name)(__VA_ARGS__) = (int (*)(__VA_ARGS__))need(library, #name)

static void arrays(void) {
    F(cuArray3DCreate_v2, pointer_t *, const struct solid *);
    F(cuMipmappedArrayCreate, pointer_t *, const struct solid *, unsigned);
    F(cuArrayDestroy, pointer_t);
    F(cuMipmappedArrayDestroy, pointer_t);
    pointer_t array, mipmapped;
    struct solid frame = {1920, 1080, 0, 0xb0, 3, 0}, blocks = {16, 16, 0, 0x9d, 4, 0};
    struct solid unheard = {16, 16, 0, 0xfe, 4, 0};
    BOTH(cuArray3DCreate_v2(&array, &frame)); /* NV12 */
    BOTH(cuMipmappedArrayCreate(&mipmapped, &blocks, 99)); /* BC7: 16 + 4 + 1 + 1 + 1 blocks */
    BOTH(cuArrayDestroy(array));
    BOTH(cuMipmappedArrayDestroy(mipmapped));
    CHECK(cuArray3DCreate_v2(&array, &unheard));
    CHECK(cuArrayDestroy(array));
}

static void sparse(void) {
    F(cuArray3DCreate_v2, pointer_t *, const struct solid *);
    F(cuArrayDestroy, pointer_t);
    F(cuMemMapArrayAsync, void *, unsigned, void *);
    pointer_t array;
    struct solid sparse = {1024, 1024, 0, 0x20, 4, 0x40}, dense = {1024, 1024, 0, 0x20, 4, 0};
    BOTH(cuArray3DCreate_v2(&array, &sparse));
    BOTH(cuMemMapArrayAsync(NULL, 1, NULL));
    CHECK(cuMemMapArrayAsync(NULL, 2, NULL));
    BOTH(cuArrayDestroy(array));
    CHECK(cuArray3DCreate_v2(&array, &dense));
    CHECK(cuArrayDestroy(array));
}

static void aliases(void) {
    F(cuIpcOpenMemHandle_v2, pointer_t *, struct shared, unsigned);
    F(cuIpcCloseMemHandle, pointer_t);
    F(cuImportExternalMemory, pointer_t *, const struct external *);
    F(cuExternalMemoryGetMappedBuffer, pointer_t *, pointer_t, const struct buffer *);
    F(cuExternalMemoryGetMappedMipmappedArray, pointer_t *, pointer_t, const struct mipmap *);
    F(cuDestroyExternalMemory, pointer_t);
    F(cuMipmappedArrayDestroy, pointer_t);
    F(cuMemPoolImportFromShareableHandle, pointer_t *, void *, unsigned, uint64_t);
    F(cuMemPoolImportPointer, pointer_t *, pointer_t, void *);
    F(cuMemPoolDestroy, pointer_t);
    F(cuMemFree_v2, pointer_t);
    F(cuMemFreeAsync, pointer_t, void *);
    pointer_t pointer, memory, mapped, array, pool;
    struct shared handle, *seen = need(library, "fake_shared");
    for (size_t i = 0; i < sizeof handle; i++)
        handle.bytes[i] = (unsigned char)(i * 3 + 1);
    BOTH(cuIpcOpenMemHandle_v2(&pointer, handle, 1));
    if (memcmp(seen, &handle, sizeof handle) != 0)
        DIE("the 64 bytes came otherwise");
    CHECK(cuIpcOpenMemHandle_v2(&pointer, handle, 1)); /* once more: the same address */
    CHECK(cuIpcCloseMemHandle(pointer));
    BOTH(cuIpcCloseMemHandle(pointer));

    struct external object = {1, {5, 0}, 90000, 0, {0}};
    struct buffer part = {4096, 5000, 0, {0}};
    struct mipmap picture = {8192, {64, 64, 0, 0x01, 4, 0}, 1, {0}};
    BOTH(cuImportExternalMemory(&memory, &object));
    BOTH(cuExternalMemoryGetMappedBuffer(&mapped, memory, &part));
    BOTH(cuExternalMemoryGetMappedMipmappedArray(&array, memory, &picture));
    BOTH(cuDestroyExternalMemory(memory));
    BOTH(cuMemFree_v2(mapped));
    BOTH(cuMipmappedArrayDestroy(array));

    BOTH(cuMemPoolImportFromShareableHandle(&pool, NULL, 1, 0));
    BOTH(cuMemPoolImportPointer(&pointer, pool, &handle));
    BOTH(cuMemFreeAsync(pointer, NULL));
    BOTH(cuMemPoolImportPointer(&pointer, pool, &handle));
    BOTH(cuMemFree_v2(pointer));
    BOTH(cuMemPoolDestroy(pool));
}

static void multicast(void) {
    F(cuMemCreate, pointer_t *, size_t, const void *, uint64_t);
    F(cuMemRelease, pointer_t);
    F(cuMulticastCreate, pointer_t *, const struct multicast *);
    F(cuMulticastBindMem, pointer_t, size_t, pointer_t, size_t, size_t, uint64_t);
    F(cuMulticastBindMem_v2, pointer_t, int, size_t, pointer_t, size_t, size_t, uint64_t);
    F(cuMulticastBindAddr, pointer_t, size_t, pointer_t, size_t, uint64_t);
    F(cuMulticastBindAddr_v2, pointer_t, int, size_t, pointer_t, size_t, uint64_t);
    F(cuMulticastUnbind, pointer_t, int, size_t, size_t);
    pointer_t object, memory;
    struct properties on_device = {1, 0, {1, 0}, NULL, {0}};
    struct multicast team = {2, 1 << 22, 0, 0};
    CHECK(cuMemCreate(&memory, 1 << 21, &on_device, 0));
    BOTH(cuMulticastCreate(&object, &team));
    BOTH(cuMulticastBindMem(object, 0, memory, 0, 1 << 20, 0));
    BOTH(cuMulticastBindMem_v2(object, 0, 1 << 20, memory, 0, 1 << 19, 0));
    BOTH(cuMulticastBindAddr(object, 1 << 21, 0x4440000, 1 << 18, 0));
    BOTH(cuMulticastBindAddr_v2(object, 0, 1 << 21, 0x4440000, 1 << 17, 0));
    BOTH(cuMulticastUnbind(object, 0, 0, 1 << 20));
    BOTH(cuMemRelease(object));
    CHECK(cuMemRelease(memory));
}

static void old(void) {
    F(cuMemAlloc, unsigned *, unsigned);
    F(cuMemAllocPitch, unsigned *, unsigned *, unsigned, unsigned, unsigned);
    F(cuMemFree, unsigned);
    F(cuMemAllocHost, void **, unsigned);
    F(cuMemFreeHost, void *);
    F(cuArrayCreate, pointer_t *, const struct flat_v1 *);
    F(cuArray3DCreate, pointer_t *, const struct solid_v1 *);
    unsigned plain, rows, pitch;
    void *pinned;
    pointer_t flat, solid;
    struct flat_v1 small = {10, 3, 0x20, 4};
    struct solid_v1 large = {10, 3, 2, 0x20, 4, 0};
    BOTH(cuMemAlloc(&plain, 1000));
    BOTH(cuMemAllocPitch(&rows, &pitch, 100, 7, 4));
    BOTH(cuMemAllocHost(&pinned, 300));
    BOTH(cuArrayCreate(&flat, &small));
    BOTH(cuArray3DCreate(&solid, &large));
    BOTH(cuMemFree(plain));
    BOTH(cuMemFree(rows));
    BOTH(cuMemFreeHost(pinned));
}

static void green(void) {
    F(cuMemAlloc_v2, pointer_t *, size_t);
    F(cuGreenCtxCreate, pointer_t *, void *, int, unsigned);
    F(cuCtxFromGreenCtx, pointer_t *, pointer_t);
    F(cuGreenCtxDestroy, pointer_t);
    pointer_t part, context, pointer;
    BOTH(cuGreenCtxCreate(&part, NULL, 0, 1));
    BOTH(cuCtxFromGreenCtx(&context, part));
    CHECK(cuMemAlloc_v2(&pointer, 5000));
    BOTH(cuGreenCtxDestroy(part)); /* another holder of the primary context remains */
    CHECK(cuGreenCtxCreate(&part, NULL, 0, 2));
    CHECK(cuGreenCtxDestroy(part)); /* the last hold: the memory ends, too */
}

static void graphics(void) {
    F(cuMemAlloc_v2, pointer_t *, size_t);
    F(cuGraphicsMapResources, unsigned, void **, void *);
    pointer_t pointer;
    void *resources[2] = {NULL, NULL};
    CHECK(cuMemAlloc_v2(&pointer, 5000));
    BOTH(cuGraphicsMapResources(2, resources, NULL));
    CHECK(cuGraphicsMapResources(1, resources, NULL));
}

int main(int count, char **arguments) {
    static const struct { const char *name; void (*run)(void); } PARTS[] = {
        {"arrays", arrays}, {"sparse", sparse}, {"aliases", aliases},
        {"multicast", multicast}, {"old", old}, {"green", green}, {"graphics", graphics},
    };
    if ((library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) == NULL)
        DIE("%s", dlerror());
    next_result = need(library, "fake_next_result");
    calls = need(library, "fake_calls");
    for (size_t i = 0; i < sizeof PARTS / sizeof *PARTS; i++)
        if (count == 2 && strcmp(arguments[1], PARTS[i].name) == 0)
            PARTS[i].run(), printf("done\n");
    return 0;
}
