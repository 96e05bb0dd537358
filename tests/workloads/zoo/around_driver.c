/* CUDA's libraries without effect or depth: each function of NAMES stores an address in its first argument and returns
 * `stub_result`. Built as libcuda.so.1 (with QUERIES, what a recorder asks of a driver), libcudart.so and libnvidia-ml.so. */
#include <stddef.h>
#include <stdint.h>

int stub_result;

#define STUB(name)                                                                                                     \
    int name(uint64_t *first) {                                                                                        \
        if ((uintptr_t)first == AREA && stub_result == 0)                                                              \
            *first = AREA;                                                                                             \
        return stub_result;                                                                                            \
    }
NAMES(STUB)

#ifdef QUERIES
int cuInit(unsigned flags) { return flags == 1; }
int cuDriverGetVersion(int *version) { return *version = 13020, 0; }
int cuDeviceGetCount(int *count) { return *count = 1, 0; }
int cuCtxGetCurrent(void **context) { return *context = (void *)0xC0, 0; }
int cuCtxGetDevice(int *device) { return *device = 0, 0; }
int cuDeviceGetUuid(void *uuid, int device) { return (void)uuid, device; }
int cuMemGetAddressRange_v2(uint64_t *base, size_t *bytes, uint64_t pointer) {
    return *base = pointer, *bytes = 7000, 0;
}
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) { return *flags = 0, *active = 1, device; }
#endif
