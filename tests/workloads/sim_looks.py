"""Prints what a program and NVML see of each simulated GPU, and what its memory costs there, as JSON by PCI bus."""

import ctypes
import json
from ctypes import byref, c_size_t, c_uint32, c_uint64, c_void_p

from sim_cuda import LIBRARY, books, must, out

NVML = ctypes.CDLL("libnvidia-ml.so.1")
IMAGE = ctypes.create_string_buffer(64)
ATTRIBUTES = {"sms": 16, "threads_per_sm": 39, "bus": 33, "major": 75, "minor": 76}
STACK = 0


class Memory(ctypes.Structure):
    """nvmlMemory_t."""

    _fields_ = [("total", c_uint64), ("free", c_uint64), ("used", c_uint64)]


def by_nvml(address):
    device, memory, text = c_void_p(), Memory(), ctypes.create_string_buffer(96)
    major, minor = ctypes.c_int(), ctypes.c_int()
    assert NVML.nvmlDeviceGetHandleByPciBusId_v2(address, byref(device)) == 0
    assert NVML.nvmlDeviceGetName(device, text, 96) == 0
    assert NVML.nvmlDeviceGetMemoryInfo(device, byref(memory)) == 0
    assert NVML.nvmlDeviceGetCudaComputeCapability(device, byref(major), byref(minor)) == 0
    return {
        "name": text.value.decode(), "total": memory.total, "used": memory.used, "capability": [major.value, minor.value],
    }  # fmt: skip


def looks(ordinal):
    """One device: a context, a kernel with a KiB of stack more, and the end of the context."""
    seen = {name: out("cuDeviceGetAttribute", number, ordinal, kind=ctypes.c_int) for name, number in ATTRIBUTES.items()}
    text, address = ctypes.create_string_buffer(256), ctypes.create_string_buffer(64)
    must("cuDeviceGetName", text, 256, ordinal)
    must("cuDeviceGetPCIBusId", address, 64, ordinal)
    seen.update(name=text.value.decode(), total=out("cuDeviceTotalMem_v2", ordinal))
    context = out("cuDevicePrimaryCtxRetain", ordinal)
    must("cuCtxSetCurrent", context)

    def used():
        free, total = c_size_t(), c_size_t()
        must("cuMemGetInfo_v2", byref(free), byref(total))
        return total.value - free.value

    seen["context"] = used()
    assert books(ordinal)["context_bytes"] == seen["context"]
    seen["nvml"] = by_nvml(address.value)
    kernel = out("cuModuleGetFunction", out("cuModuleLoadData", IMAGE), b"kernel")
    before = used()
    must("cuCtxSetLimit", STACK, 2048)
    assert LIBRARY.cuLaunchKernel(c_uint64(kernel), *[c_uint32(1)] * 6, c_uint32(0), c_uint64(0), None, None) == 0
    seen["stack"] = used() - before
    blocks = out("cuOccupancyMaxActiveBlocksPerMultiprocessor", kernel, 512, 0, kind=ctypes.c_int)
    seen["threads_by_occupancy"] = blocks * 512
    must("cuDevicePrimaryCtxRelease_v2", ordinal)
    return seen


assert NVML.nvmlInit_v2() == 0
must("cuInit", 0)
found = [looks(ordinal) for ordinal in range(out("cuDeviceGetCount", kind=ctypes.c_int))]
print(json.dumps({each["bus"]: each for each in found}))
