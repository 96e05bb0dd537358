/* A driver with preset results: built as libcuda.so.1 for tests of the values that pass through the
 * hooks. It checks every argument, counts every call, and returns codes and addresses that no real
 * driver would. `fake_next_result` is the result of the next call. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int fake_next_result, fake_calls;
uint64_t fake_arguments[8];
static uint64_t next_address = 0x7000000;

static int answer(void) {
    int result = fake_next_result;
    fake_next_result = 0;
    return result;
}

static int called(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
    uint64_t now[4] = {a, b, c, d};
    memcpy(fake_arguments, now, sizeof now);
    fake_calls++;
    return answer();
}

int cuInit(unsigned flags) { return called(flags, 0, 0, 0); }
int cuDriverGetVersion(int *version) { return *version = 13020, 0; }
int cuCtxGetCurrent(void **context) { return *context = (void *)0xC0, 0; }
int cuCtxGetDevice(int *device) { return *device = 0, 0; }
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
    (void)device;
    return *flags = 0, *active = 1, 0;
}

int cuMemAlloc_v2(uint64_t *pointer, size_t bytes) {
    int result = called((uint64_t)(uintptr_t)pointer, bytes, 0, 0);
    if (result == 0)
        *pointer = next_address += 0x10000;
    else
        *pointer = 0xdeadbeef; /* an arbitrary value on failure, which must pass through unchanged */
    return result;
}

void *fake_real_alloc = (void *)cuMemAlloc_v2;

int cuMemFree_v2(uint64_t pointer) { return called(pointer, 0, 0, 0); }

int cuMemAllocPitch_v2(uint64_t *pointer, size_t *pitch, size_t width, size_t height, unsigned element) {
    int result = called(width, height, element, (uint64_t)(uintptr_t)pitch);
    if (result == 0)
        *pointer = next_address += 0x10000, *pitch = 4096;
    return result;
}

int cuMemAllocAsync(uint64_t *pointer, size_t bytes, void *stream) {
    int result = called(bytes, (uint64_t)(uintptr_t)stream, 1, 0);
    *pointer = next_address += 0x10000;
    return result;
}

int cuMemAllocAsync_ptsz(uint64_t *pointer, size_t bytes, void *stream) {
    int result = called(bytes, (uint64_t)(uintptr_t)stream, 2, 0);
    *pointer = next_address += 0x10000;
    return result;
}

/* A function that the library does not export: what a driver may hand out under a known name. */
static int hidden_alloc(uint64_t *pointer, size_t bytes) { return cuMemAlloc_v2(pointer, bytes); }
/* An export whose name the recorder does not have, with other arguments than the requested function. */
int cuMemFree_v9(uint64_t pointer, uint64_t more) { return called(pointer, more, 9, 0); }

int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status);

int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) {
    void *found = NULL;
    if (strcmp(name, "cuMemAlloc") == 0 && version >= 90000)
        found = (void *)hidden_alloc;
    else if (strcmp(name, "cuMemAlloc") == 0 && version >= 3020)
        found = (void *)cuMemAlloc_v2;
    else if (strcmp(name, "cuMemFree") == 0 && version >= 90000)
        found = (void *)cuMemFree_v9;
    else if (strcmp(name, "cuMemFree") == 0)
        found = (void *)cuMemFree_v2;
    else if (strcmp(name, "cuMemAllocAsync") == 0)
        found = flags == 2 ? (void *)cuMemAllocAsync_ptsz : (void *)cuMemAllocAsync;
    else if (strcmp(name, "cuGetProcAddress") == 0)
        found = version >= 12000 ? (void *)cuGetProcAddress_v2 : (void *)cuGetProcAddress;
    else if (strcmp(name, "cuInit") == 0)
        found = (void *)cuInit;
    fake_calls++;
    *function = found;
    return answer(); /* CUDA_SUCCESS with a NULL function, too */
}

int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
    int result = cuGetProcAddress(name, function, version, flags);
    if (status != NULL)
        *status = *function == NULL ? 1 : 0;
    return result;
}
