/* Arrays, registered memory, address space, an old form of contexts, and another process's memory on the
 * simulated driver; each step is checked against its books. Prints the books at the end. */
#include "hook_client.h"
#include "hook_surface.h"
#include <sys/wait.h>

#define F(name, ...) int (*name)(__VA_ARGS__) = (int (*)(__VA_ARGS__))need(driver(), #name)

/* Physical bytes change equally. `aside`: a context was created or ended; its size has another test. */
static void agree_on_pages(int aside, const char *after, int line) {
    static uint64_t apart;
    int (*ask)(int, int, struct counters *) = dlsym(RTLD_DEFAULT, "gpumem_counters");
    struct counters ours;
    uint64_t current, peak;
    if (ask == NULL || ask(0, 3, &ours) != 0)
        return;
    books(0, "physical", &current, &peak);
    if (aside)
        apart = current - ours.live;
    else if (current - ours.live != apart)
        DIE("line %d, after %s: physical: recorder %llu, books %llu, %llu apart before", line, after,
            (unsigned long long)ours.live, (unsigned long long)current, (unsigned long long)apart);
}
#define AT(aside, after)                                                                           \
    (agree_on(0, 1, "driver", after, __LINE__), agree_on_pages(aside, after, __LINE__),            \
     agree_on(0, 2, "pinned", after, __LINE__))
#define SAME(after) AT(0, after)

/* Another process opens what this one has: an alias there, counted nowhere. */
static void other_process(int from, int to) {
    struct shared handle;
    pointer_t pointer;
    void *context;
    char byte = 0;
    if (read(from, &handle, sizeof handle) != sizeof handle)
        _exit(3);
    context = start();
    (void)context;
    F(cuIpcOpenMemHandle_v2, pointer_t *, struct shared, unsigned);
    F(cuIpcCloseMemHandle, pointer_t);
    F(cuMemAlloc_v2, pointer_t *, size_t);
    pointer_t own;
    CHECK(cuMemAlloc_v2(&own, 3 << 20));
    AT(1, "cuMemAlloc of the other process");
    if (cuIpcOpenMemHandle_v2(&pointer, handle, 0) == 0) /* flags must be 1 */
        _exit(4);
    CHECK(cuIpcOpenMemHandle_v2(&pointer, handle, 1));
    SAME("cuIpcOpenMemHandle");
    if (cuIpcCloseMemHandle(pointer + 1) == 0)
        _exit(5);
    CHECK(cuIpcCloseMemHandle(pointer));
    SAME("cuIpcCloseMemHandle");
    if (write(to, &byte, 1) != 1)
        _exit(6);
    exit(0);
}

int main(void) {
    int there[2], back[2];
    char byte;
    if (pipe(there) != 0 || pipe(back) != 0)
        DIE("no pipe");
    pid_t child = fork(); /* before CUDA, which does not survive a fork */
    if (child == 0) {
        close(there[1]);
        close(back[0]);
        other_process(there[0], back[1]);
    }
    close(there[0]);
    close(back[1]);

    void *primary = start(), *own;
    F(cuArrayCreate_v2, pointer_t *, const struct flat *);
    F(cuArray3DCreate_v2, pointer_t *, const struct solid *);
    F(cuMipmappedArrayCreate, pointer_t *, const struct solid *, unsigned);
    F(cuArrayDestroy, pointer_t);
    F(cuMipmappedArrayDestroy, pointer_t);
    F(cuMemHostRegister_v2, void *, size_t, unsigned);
    F(cuMemHostRegister, void *, size_t, unsigned);
    F(cuMemHostUnregister, void *);
    F(cuMemHostAlloc, void **, size_t, unsigned);
    F(cuMemFreeHost, void *);
    F(cuMemAddressReserve, pointer_t *, size_t, size_t, pointer_t, uint64_t);
    F(cuMemAddressFree, pointer_t, size_t);
    F(cuMemAlloc_v2, pointer_t *, size_t);
    F(cuMemFree_v2, pointer_t);
    F(cuIpcGetMemHandle, struct shared *, pointer_t);
    F(cuCtxCreate, void **, unsigned, int);
    F(cuCtxDetach, void *);
    F(cuCtxSetCurrent, void *);
    pointer_t flat, solid, layered, mipmapped, gone, pointer, range;
    void *pinned;
    static char memory[40960];
    struct shared handle;

    struct flat line = {1000, 0, 0x20, 4}, nothing = {0, 0, 0x20, 4};
    struct solid box = {100, 50, 20, 0x10, 2, 0}, layers = {64, 64, 6, 0x01, 4, 1};
    CHECK(cuArrayCreate_v2(&flat, &line));
    AT(1, "the first array");
    CHECK(cuArrayDestroy(flat));
    CHECK(cuArrayCreate_v2(&flat, &line));
    SAME("cuArrayCreate");
    CHECK(cuArray3DCreate_v2(&solid, &box));
    SAME("cuArray3DCreate");
    CHECK(cuArray3DCreate_v2(&layered, &layers));
    CHECK(cuMipmappedArrayCreate(&mipmapped, &box, 4));
    SAME("cuMipmappedArrayCreate");
    CHECK(cuMipmappedArrayCreate(&gone, &layers, 3));
    SAME("layers");
    printf("no width: %d\n", cuArrayCreate_v2(&pointer, &nothing));
    printf("no descriptor: %d\n", cuArrayCreate_v2(&pointer, NULL));
    printf("no array: %d\n", cuArrayDestroy(0x1234));
    SAME("failures of arrays");
    CHECK(cuArrayDestroy(flat));
    CHECK(cuMipmappedArrayDestroy(mipmapped));
    printf("twice: %d\n", cuArrayDestroy(flat));
    SAME("cuArrayDestroy");

    CHECK(cuMemHostRegister_v2(memory, 20000, 1));
    SAME("cuMemHostRegister");
    CHECK(cuMemHostAlloc(&pinned, 5000, 0));
    CHECK(cuMemHostRegister(memory + 20480, 10000, 1));
    SAME("cuMemHostRegister of old");
    printf("registered twice: %d\n", cuMemHostRegister_v2(memory, 20000, 1));
    printf("not registered: %d\n", cuMemHostUnregister(memory + 4096));
    SAME("failures of registering");
    CHECK(cuMemHostUnregister(memory));
    CHECK(cuMemFreeHost(pinned));
    SAME("cuMemHostUnregister");

    CHECK(cuMemAddressReserve(&range, 4 << 20, 0, 0, 0));
    printf("no range: %d\n", cuMemAddressFree(0x1000, 4 << 20) != 0);
    printf("too much: %d\n", cuMemAddressFree(range, 8 << 20) != 0);
    CHECK(cuMemAddressFree(range, 4 << 20));
    SAME("addresses");

    CHECK(cuCtxCreate(&own, 0, 0));
    CHECK(cuMemAlloc_v2(&pointer, 123456));
    AT(1, "in a context of old");
    CHECK(cuArrayCreate_v2(&flat, &line));
    SAME("an array in a context of old");
    CHECK(cuCtxDetach(own));
    AT(1, "cuCtxDetach");
    CHECK(cuCtxSetCurrent(primary));

    CHECK(cuMemAlloc_v2(&pointer, 5 << 20));
    CHECK(cuIpcGetMemHandle(&handle, pointer));
    if (write(there[1], &handle, sizeof handle) != sizeof handle)
        DIE("no pipe");
    int status = -1;
    if (read(back[0], &byte, 1) != 1 || waitpid(child, &status, 0) != child || status != 0)
        DIE("the other process ended with %d", status);
    CHECK(cuMemFree_v2(pointer));
    SAME("end");
    tell_books("end");
    return 0;
}
