/* A driver with the functions that few programs call: built as libcuda.so.1. Every call is counted
 * and returns `fake_next_result`, once; the handles that it creates are numbers. */
#include "hook_surface.h"
#include <string.h>

int fake_next_result, fake_calls;
struct shared fake_shared;
static int fake_primary = 1;
static uint64_t next = 0x7000000;

static int answer(void) {
    int result = fake_next_result;
    fake_next_result = 0;
    fake_calls++;
    return result;
}

static int make(uint64_t *place) {
    int result = answer();
    if (result == 0)
        *place = next += 0x1000;
    return result;
}

static int make_v1(unsigned *place) {
    uint64_t made = 0;
    int result = make(&made);
    if (result == 0)
        *place = (unsigned)made;
    return result;
}

int cuInit(unsigned flags) { return flags != 0; }
int cuDriverGetVersion(int *version) { return *version = 13050, 0; }
int cuCtxGetCurrent(void **context) { return *context = (void *)0xC0, 0; }
int cuCtxGetDevice(int *device) { return *device = 0, 0; }
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
    return *flags = 0, *active = fake_primary, device;
}
int cuMemGetAddressRange_v2(uint64_t *base, size_t *bytes, uint64_t pointer) {
    return *base = pointer, *bytes = 7000, 0;
}

#define MAKES(name, ...) int name(__VA_ARGS__) { return make(place); }
#define DOES(name, ...) int name(__VA_ARGS__) { return answer(); }
#pragma GCC diagnostic ignored "-Wunused-parameter"

MAKES(cuMemAlloc_v2, uint64_t *place, size_t bytes)
DOES(cuMemFree_v2, uint64_t pointer)
DOES(cuMemFreeAsync, uint64_t pointer, void *stream)
int cuMemAlloc(unsigned *place, unsigned bytes) { return make_v1(place); }
int cuMemAllocPitch(unsigned *place, unsigned *pitch, unsigned width, unsigned height, unsigned element) {
    return *pitch = 512, make_v1(place);
}
DOES(cuMemFree, unsigned pointer)
MAKES(cuMemAllocHost, uint64_t *place, unsigned bytes)
DOES(cuMemFreeHost, void *pointer)
MAKES(cuArrayCreate, uint64_t *place, const struct flat_v1 *array)
MAKES(cuArray3DCreate, uint64_t *place, const struct solid_v1 *array)
MAKES(cuArray3DCreate_v2, uint64_t *place, const struct solid *array)
MAKES(cuMipmappedArrayCreate, uint64_t *place, const struct solid *array, unsigned levels)
DOES(cuArrayDestroy, uint64_t array)
DOES(cuMipmappedArrayDestroy, uint64_t array)

MAKES(cuMemCreate, uint64_t *place, size_t bytes, const void *properties, uint64_t flags)
DOES(cuMemRelease, uint64_t handle)
DOES(cuMemMapArrayAsync, void *list, unsigned count, void *stream)
DOES(cuGraphicsMapResources, unsigned count, void **resources, void *stream)

int cuIpcOpenMemHandle_v2(uint64_t *place, struct shared handle, unsigned flags) {
    fake_shared = handle;
    int result = answer();
    if (result == 0 && flags == 1)
        *place = 0x5550000;
    return result;
}
DOES(cuIpcCloseMemHandle, uint64_t pointer)
MAKES(cuImportExternalMemory, uint64_t *place, const struct external *description)
MAKES(cuExternalMemoryGetMappedBuffer, uint64_t *place, uint64_t memory, const struct buffer *description)
MAKES(cuExternalMemoryGetMappedMipmappedArray, uint64_t *place, uint64_t memory,
      const struct mipmap *description)
DOES(cuDestroyExternalMemory, uint64_t memory)
MAKES(cuMemPoolImportFromShareableHandle, uint64_t *place, void *handle, unsigned type, uint64_t flags)
MAKES(cuMemPoolImportPointer, uint64_t *place, uint64_t pool, void *shared)
DOES(cuMemPoolDestroy, uint64_t pool)
int cuMemPoolGetAttribute(uint64_t pool, unsigned attribute, uint64_t *value) { return 1; }

MAKES(cuMulticastCreate, uint64_t *place, const struct multicast *properties)
DOES(cuMulticastBindMem, uint64_t object, size_t at, uint64_t memory, size_t offset, size_t bytes,
     uint64_t flags)
DOES(cuMulticastBindMem_v2, uint64_t object, int device, size_t at, uint64_t memory, size_t offset,
     size_t bytes, uint64_t flags)
DOES(cuMulticastBindAddr, uint64_t object, size_t at, uint64_t pointer, size_t bytes, uint64_t flags)
DOES(cuMulticastBindAddr_v2, uint64_t object, int device, size_t at, uint64_t pointer, size_t bytes,
     uint64_t flags)
DOES(cuMulticastUnbind, uint64_t object, int device, size_t at, size_t bytes)

MAKES(cuCtxFromGreenCtx, uint64_t *place, uint64_t green)
/* Flags 2: the last hold on the primary context, which ends with it. */
static uint64_t last_hold;
int cuGreenCtxCreate(uint64_t *place, void *resources, int device, unsigned flags) {
    int result = make(place);
    if (result == 0 && flags == 2)
        last_hold = *place;
    return result;
}
int cuGreenCtxDestroy(uint64_t green) {
    int result = answer();
    if (result == 0 && green == last_hold)
        fake_primary = 0;
    return result;
}
