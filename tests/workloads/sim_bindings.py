"""NVIDIA's cuda-bindings on the simulated driver: everything through its driver module."""

from cuda.bindings import driver
from sim_cuda import books

MIB = 1 << 20


def must(result):
    """What a call gave after its result code, which must be success."""
    code, *values = result
    assert code == driver.CUresult.CUDA_SUCCESS, code
    return values[0] if len(values) == 1 else values


def live(kind):
    return books()["kinds"][kind]["current"]


def main():
    must(driver.cuInit(0))
    device = must(driver.cuDeviceGet(0))
    assert must(driver.cuDeviceGetCount()) == 1
    context = must(driver.cuDevicePrimaryCtxRetain(device))
    must(driver.cuCtxSetCurrent(context))
    assert must(driver.cuDriverGetVersion()) == 13020

    pointer = must(driver.cuMemAlloc(1000))
    assert live("device") == 1000
    sent, back = bytes(range(250)) * 4, bytearray(1000)
    must(driver.cuMemcpyHtoD(pointer, sent, 1000))
    must(driver.cuMemcpyDtoH(back, pointer, 1000))
    assert bytes(back) == sent
    must(driver.cuMemFree(pointer))
    assert live("device") == 0
    code, _ = driver.cuMemAlloc(1 << 50)
    assert code == driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY

    stream = must(driver.cuStreamCreate(0))
    pointer = must(driver.cuMemAllocAsync(3000, stream))
    pool = must(driver.cuDeviceGetMemPool(device))
    attribute = driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_USED_MEM_CURRENT
    assert int(must(driver.cuMemPoolGetAttribute(pool, attribute))) == 3000
    assert live("async") == 3000
    must(driver.cuMemFreeAsync(pointer, stream))
    must(driver.cuStreamSynchronize(stream))

    properties = driver.CUmemAllocationProp()
    properties.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.location.id = 0
    minimum = driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
    step = must(driver.cuMemGetAllocationGranularity(properties, minimum))
    base = must(driver.cuMemAddressReserve(2 * step, 0, 0, 0))
    handle = must(driver.cuMemCreate(step, properties, 0))
    must(driver.cuMemMap(base, step, 0, handle, 0))
    access = driver.CUmemAccessDesc()
    access.location = properties.location
    access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    must(driver.cuMemSetAccess(base, step, [access], 1))
    must(driver.cuMemcpyHtoD(base, sent, 1000))
    must(driver.cuMemRelease(handle))
    assert live("vmm") == step
    must(driver.cuMemUnmap(base, step))
    must(driver.cuMemAddressFree(base, 2 * step))
    assert live("vmm") == 0

    module = must(driver.cuModuleLoadData(b".version 6.0\n\0"))
    kernel = must(driver.cuModuleGetFunction(module, b"kernel"))
    must(driver.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, 0, 0))
    must(driver.cuModuleUnload(module))
    must(driver.cuStreamDestroy(stream))
    must(driver.cuDevicePrimaryCtxRelease(device))
    figures = books()
    assert figures["driver"]["current"] == 0 and figures["physical"]["current"] == 0
    print("bindings work")


main()
