"""cuda-bindings as a client of the driver API."""

from cuda.bindings import driver


def must(answer):
    code, *values = answer
    if code != driver.CUresult.CUDA_SUCCESS:
        raise SystemExit(f"driver said {code}")
    return values[0] if len(values) == 1 else values


must(driver.cuInit(0))
device = must(driver.cuDeviceGet(0))
context = must(driver.cuDevicePrimaryCtxRetain(device))
must(driver.cuCtxSetCurrent(context))
one = must(driver.cuMemAlloc(1_000_000))
two = must(driver.cuMemAlloc(2_000_000))
host = must(driver.cuMemAllocHost(4096))
must(driver.cuMemsetD8(one, 0x11, 1_000_000))
data = bytearray(16)
must(driver.cuMemcpyDtoH(data, one, 16))
print(data.hex())
print(driver.cuMemAlloc(2**46)[0])
print(driver.cuMemFree(0xDEAD0000)[0])
must(driver.cuMemFree(one))
must(driver.cuMemFree(two))
must(driver.cuMemFreeHost(host))
must(driver.cuDevicePrimaryCtxRelease(device))
print("done")
