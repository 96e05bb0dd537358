/* A driver that allocates nothing on the host: addresses only. */
#include <stddef.h>
#include <stdint.h>

static uint64_t next = 0x700000000000;
static int context;

int cuInit(unsigned flags) { (void)flags; return 0; }
int cuDriverGetVersion(int *version) { *version = 12080; return 0; }
int cuDeviceGet(int *device, int number) { *device = number; return number ? 101 : 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDevicePrimaryCtxRetain(void **made, int device) { (void)device; *made = &context; return 0; }
int cuCtxSetCurrent(void *current) { (void)current; return 0; }
int cuCtxGetCurrent(void **current) { *current = &context; return 0; }
int cuCtxGetDevice(int *device) { *device = 0; return 0; }
int cuMemGetInfo_v2(size_t *left, size_t *all) { *left = (size_t)8 << 30; *all = (size_t)16 << 30; return 0; }
int cuMemAlloc_v2(uint64_t *pointer, size_t bytes) {
    *pointer = __atomic_fetch_add(&next, (bytes + 511) & ~(size_t)511, __ATOMIC_RELAXED);
    return 0;
}
int cuMemFree_v2(uint64_t pointer) { (void)pointer; return 0; }
