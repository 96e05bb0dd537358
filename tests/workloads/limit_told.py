"""The answers that a program gets about its card, and the results of allocations until one fails, one line each: the
same on a small card and on a larger one with GPUMEM_LIMIT. Arguments: how many devices."""

import ctypes
import sys
from ctypes import byref, c_size_t, c_uint32, c_uint64, c_void_p

MIB = 1 << 20


class Memory(ctypes.Structure):
    """nvmlMemory_t."""

    _fields_ = [("total", c_uint64), ("free", c_uint64), ("used", c_uint64)]


class MemoryV2(ctypes.Structure):
    """nvmlMemory_v2_t."""

    _fields_ = [
        ("version", c_uint32), ("total", c_uint64), ("reserved", c_uint64), ("free", c_uint64), ("used", c_uint64),
    ]


class Prop(ctypes.Structure):
    """CUmemAllocationProp: pinned memory of a device."""

    _fields_ = [("kind", c_uint32), ("types", c_uint32), ("where", c_uint32), ("id", c_uint32), ("rest", c_uint64 * 2)]


cuda = ctypes.CDLL("libcuda.so.1")
cudart = ctypes.CDLL("libcudart.so.13")
nvml = ctypes.CDLL("libnvidia-ml.so.1")


def told(index):
    """NVML's figures of a card, and those of the driver and the runtime for the current one."""
    device, first, second = c_void_p(), Memory(), MemoryV2(version=ctypes.sizeof(MemoryV2) | 2 << 24)
    nvml.nvmlDeviceGetHandleByIndex_v2(index, byref(device))
    codes = [
        nvml.nvmlDeviceGetMemoryInfo(device, byref(first)), nvml.nvmlDeviceGetMemoryInfo_v2(device, byref(second)),
    ]
    out = [first.total, first.free, first.used, second.total, second.reserved, second.free, second.used]
    for function in (cuda.cuMemGetInfo_v2, cudart.cudaMemGetInfo) if cuda_is_there else ():
        free, total = c_size_t(), c_size_t()
        codes.append(function(byref(free), byref(total)))
        out += [free.value, total.value]
    old = c_uint32(), c_uint32()
    if cuda_is_there:
        codes.append(cuda.cuDeviceTotalMem(byref(old[0]), index))
        out.append(old[0].value)
    print("told", index, codes, out)


def asked(what, code, *more):
    """What came of a call."""
    print(what, code, *more)
    return code == 0


cuda_is_there = False
devices = int(sys.argv[1])
nvml.nvmlInit_v2()
if devices == 1:
    # Which of CUDA's devices a card will be is not known yet.
    told(0)
cuda.cuInit(0)
cuda_is_there = True
for index in range(devices):
    print("device", index)
    total = c_size_t()
    asked("cuDeviceTotalMem", cuda.cuDeviceTotalMem_v2(byref(total), index), total.value)
    properties = (ctypes.c_uint8 * 4096)()
    asked("cudaGetDeviceProperties", cudart.cudaGetDeviceProperties(properties, index))
    print("totalGlobalMem", int.from_bytes(bytes(properties[288:296]), "little"))
    asked("cudaSetDevice", cudart.cudaSetDevice(index))
    asked("cudaFree", cudart.cudaFree(None))
    told(index)
    # Plain memory through the driver, until it is exhausted; the pointer of a call that fails stays unchanged.
    asked("cuMemAlloc small", cuda.cuMemAlloc_v2(byref(c_uint64()), c_size_t(512)))
    blocks, step = [], 300 * MIB
    while step >= MIB // 2:
        pointer = c_uint64(7)
        if asked(f"cuMemAlloc {step}", cuda.cuMemAlloc_v2(byref(pointer), c_size_t(step))):
            blocks.append(pointer)
        else:
            print("pointer", pointer.value)
            step //= 3
    told(index)
    # Through the runtime: the failure is its last error, once.
    pointer = c_void_p()
    asked("cudaMalloc", cudart.cudaMalloc(byref(pointer), c_size_t(200 * MIB)))
    print("last", cudart.cudaPeekAtLastError(), cudart.cudaGetLastError(), cudart.cudaGetLastError())
    # Small blocks of a page that has room need nothing more of the card.
    for _ in range(3):
        asked("cuMemAlloc small", cuda.cuMemAlloc_v2(byref(c_uint64()), c_size_t(512)))
    # Managed memory never fails, and is as far on the card as it fits.
    managed = c_uint64()
    asked("cuMemAllocManaged", cuda.cuMemAllocManaged(byref(managed), c_size_t(512 * MIB), 1))
    told(index)
    asked("cuMemFree", cuda.cuMemFree_v2(managed))
    for pointer in blocks[::2]:
        asked("cuMemFree", cuda.cuMemFree_v2(pointer))
    told(index)
    # Pools: what one keeps unused makes room for another kind of memory.
    pool, threshold = c_void_p(), c_uint64(2**64 - 1)
    cuda.cuDeviceGetDefaultMemPool(byref(pool), index)
    cuda.cuMemPoolSetAttribute(pool, 4, byref(threshold))
    pooled = []
    while True:
        pointer = c_uint64()
        if not asked("cuMemAllocAsync", cuda.cuMemAllocAsync(byref(pointer), c_size_t(90 * MIB), None)):
            break
        pooled.append(pointer)
    for pointer in pooled:
        cuda.cuMemFreeAsync(pointer, None)
    cuda.cuStreamSynchronize(None)
    told(index)
    handles = []
    while True:
        handle, prop = c_uint64(), Prop(kind=1, where=1, id=index)
        if not asked("cuMemCreate", cuda.cuMemCreate(byref(handle), c_size_t(64 * MIB), byref(prop), c_uint64(0))):
            break
        handles.append(handle)
    told(index)
    context = c_void_p()
    asked("cuCtxCreate", cuda.cuCtxCreate_v2(byref(context), 0, index))
    for handle in handles:
        asked("cuMemRelease", cuda.cuMemRelease(handle))
    asked("cuCtxCreate", cuda.cuCtxCreate_v2(byref(context), 0, index))
    told(index)
    asked("cuCtxDestroy", cuda.cuCtxDestroy_v2(context))
    told(index)
