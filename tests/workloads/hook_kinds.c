/* Every kind of memory that the driver gives, each step checked against the simulator's books. Prints
 * the books at the end; no addresses, so that two runs print the same. */
#include "hook_client.h"

#define F(name, ...) int (*name)(__VA_ARGS__) = (int (*)(__VA_ARGS__))need(driver(), #name)

int main(void) {
    void *primary = start(), *own, *pinned, *mapped, *pool;
    pointer_t device, pitched, managed, legacy, per_thread, pooled, address, other, handle, retained;
    size_t pitch = 0, unit = 0;
    struct properties on_device = {1, 0, {1, 0}, NULL, {0}};

    F(cuMemAlloc_v2, pointer_t *, size_t);
    F(cuMemAllocPitch_v2, pointer_t *, size_t *, size_t, size_t, unsigned);
    F(cuMemAllocManaged, pointer_t *, size_t, unsigned);
    F(cuMemFree_v2, pointer_t);
    F(cuMemAllocHost_v2, void **, size_t);
    F(cuMemHostAlloc, void **, size_t, unsigned);
    F(cuMemFreeHost, void *);
    F(cuMemAllocAsync, pointer_t *, size_t, void *);
    F(cuMemAllocAsync_ptsz, pointer_t *, size_t, void *);
    F(cuMemAllocFromPoolAsync, pointer_t *, size_t, void *, void *);
    F(cuDeviceGetDefaultMemPool, void **, int);
    F(cuMemFreeAsync, pointer_t, void *);
    F(cuMemFreeAsync_ptsz, pointer_t, void *);
    F(cuMemGetAllocationGranularity, size_t *, const struct properties *, int);
    F(cuMemAddressReserve, pointer_t *, size_t, size_t, pointer_t, uint64_t);
    F(cuMemAddressFree, pointer_t, size_t);
    F(cuMemCreate, pointer_t *, size_t, const struct properties *, uint64_t);
    F(cuMemRelease, pointer_t);
    F(cuMemMap, pointer_t, size_t, size_t, pointer_t, uint64_t);
    F(cuMemUnmap, pointer_t, size_t);
    F(cuMemRetainAllocationHandle, pointer_t *, void *);
    F(cuCtxCreate_v2, void **, unsigned, int);
    F(cuCtxDestroy_v2, void *);
    F(cuCtxSetCurrent, void *);
    F(cuDevicePrimaryCtxRetain, void **, int);
    F(cuDevicePrimaryCtxRelease_v2, int);
    F(cuDevicePrimaryCtxReset_v2, int);

    /* plain */
    CHECK(cuMemAlloc_v2(&device, 1000));
    AGREE("cuMemAlloc");
    CHECK(cuMemAllocPitch_v2(&pitched, &pitch, 1001, 7, 4));
    AGREE("cuMemAllocPitch");
    CHECK(cuMemAllocManaged(&managed, 5000, 1));
    AGREE("cuMemAllocManaged");
    CHECK(cuMemAllocHost_v2(&pinned, 777));
    CHECK(cuMemHostAlloc(&mapped, 888, 2));
    AGREE("pinned");
    CHECK(cuMemFree_v2(0));
    CHECK(cuMemFree_v2(device));
    CHECK(cuMemFree_v2(pitched));
    AGREE("cuMemFree");
    CHECK(cuMemFreeHost(pinned));
    AGREE("cuMemFreeHost");

    /* what fails changes nothing */
    printf("too much: %d\n", cuMemAlloc_v2(&other, (size_t)1 << 50));
    printf("nothing: %d\n", cuMemAlloc_v2(&other, 0));
    printf("rubbish: %d\n", cuMemFree_v2(0x1234));
    printf("twice: %d\n", cuMemFree_v2(device));
    printf("no place: %d\n", cuMemAlloc_v2(NULL, 100));
    AGREE("failures");

    /* ordered by a stream; released in either way */
    CHECK(cuMemAllocAsync(&legacy, 3000, NULL));
    CHECK(cuMemAllocAsync_ptsz(&per_thread, 3001, NULL));
    CHECK(cuDeviceGetDefaultMemPool(&pool, 0));
    CHECK(cuMemAllocFromPoolAsync(&pooled, 3002, pool, NULL));
    AGREE("cuMemAllocAsync");
    CHECK(cuMemFreeAsync(legacy, NULL));
    CHECK(cuMemFreeAsync_ptsz(per_thread, NULL));
    CHECK(cuMemFree_v2(pooled));
    AGREE("cuMemFreeAsync");

    /* physical: released before, between and after its mappings end */
    CHECK(cuMemGetAllocationGranularity(&unit, &on_device, 0));
    CHECK(cuMemAddressReserve(&address, 4 * unit, 0, 0, 0));
    CHECK(cuMemCreate(&handle, unit, &on_device, 0));
    AGREE("cuMemCreate");
    CHECK(cuMemMap(address, unit, 0, handle, 0));
    CHECK(cuMemMap(address + unit, unit, 0, handle, 0));
    AGREE("cuMemMap");
    CHECK(cuMemRelease(handle));
    AGREE("cuMemRelease while mapped");
    CHECK(cuMemRetainAllocationHandle(&retained, (void *)address));
    CHECK(cuMemUnmap(address, 2 * unit));
    AGREE("cuMemUnmap of two, still referred to");
    CHECK(cuMemRelease(retained));
    AGREE("last cuMemRelease");
    CHECK(cuMemCreate(&handle, 2 * unit, &on_device, 0));
    CHECK(cuMemMap(address, 2 * unit, 0, handle, 0));
    CHECK(cuMemRelease(handle));
    AGREE("released, mapped");
    CHECK(cuMemUnmap(address, 2 * unit));
    AGREE("last cuMemUnmap");
    printf("released twice: %d\n", cuMemRelease(handle) != 0);
    printf("unmapped twice: %d\n", cuMemUnmap(address, 2 * unit) != 0);
    AGREE("failures of physical memory");
    CHECK(cuMemAddressFree(address, 4 * unit));

    /* a context of our own takes what it has with it */
    CHECK(cuCtxCreate_v2(&own, 0, 0));
    CHECK(cuMemAlloc_v2(&device, 123456));
    CHECK(cuMemAllocHost_v2(&pinned, 4321));
    AGREE("in a second context");
    CHECK(cuCtxDestroy_v2(own));
    AGREE("cuCtxDestroy");
    CHECK(cuCtxSetCurrent(primary));
    printf("a dead context: %d\n", cuCtxDestroy_v2(own) != 0);
    AGREE("cuCtxDestroy twice");

    /* as does the primary one: not at each release, but at the last, and at a reset */
    CHECK(cuMemAlloc_v2(&device, 65536));
    CHECK(cuDevicePrimaryCtxRetain(&primary, 0));
    CHECK(cuDevicePrimaryCtxRelease_v2(0));
    AGREE("one release of two");
    CHECK(cuDevicePrimaryCtxRelease_v2(0));
    AGREE("last release");
    CHECK(cuDevicePrimaryCtxRetain(&primary, 0));
    CHECK(cuCtxSetCurrent(primary));
    CHECK(cuMemAlloc_v2(&device, 9999));
    CHECK(cuMemAllocAsync(&legacy, 2222, NULL));
    AGREE("in the new primary context");
    CHECK(cuDevicePrimaryCtxReset_v2(0));
    AGREE("cuDevicePrimaryCtxReset");
    tell_books("end");
    return 0;
}
