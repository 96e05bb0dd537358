"""The simulated NVML through ctypes: the calls and structures that nvml-wrapper does not use, and
the order of things. Run on two devices."""

import ctypes
import os
from ctypes import Structure, byref, c_char_p, c_uint32, c_uint64, c_void_p

NVML = ctypes.CDLL("libnvidia-ml.so.1")
UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND, INSUFFICIENT_SIZE = 1, 2, 3, 6, 7
ARGUMENT_VERSION_MISMATCH = 25
MIB = 1 << 20


class Memory(Structure):
    """nvmlMemory_t."""

    _fields_ = [("total", c_uint64), ("free", c_uint64), ("used", c_uint64)]


class ProcessV1(Structure):
    """nvmlProcessInfo_v1_t."""

    _fields_ = [("pid", c_uint32), ("used", c_uint64)]


class Process(Structure):
    """nvmlProcessInfo_t since its second form."""

    _fields_ = [*ProcessV1._fields_, ("gpu_instance", c_uint32), ("compute_instance", c_uint32)]


def code(name, *arguments):
    """Calls a function; its result code. Device handles are c_void_p."""
    return getattr(NVML, name)(*arguments)


def must(name, *arguments):
    """Calls a function that must succeed."""
    got = code(name, *arguments)
    assert got == 0, f"{name} gave {got}"


def running(name, kind, device, room=4):
    """The result code, the count, the list."""
    count, processes = c_uint32(room), (kind * max(room, 1))()
    got = code(name, device, byref(count), processes if room else None)
    return got, count.value, processes


def main():
    count, device = c_uint32(), c_void_p()
    assert code("nvmlDeviceGetCount_v2", byref(count)) == UNINITIALIZED
    assert code("nvmlShutdown") == UNINITIALIZED
    must("nvmlInit_v2")
    must("nvmlInit_v2")
    must("nvmlDeviceGetCount_v2", byref(count))
    assert count.value == 2
    assert code("nvmlDeviceGetHandleByIndex_v2", 2, byref(device)) == INVALID_ARGUMENT
    assert code("nvmlDeviceGetHandleByPciBusId_v2", b"0000:09:00.0", byref(device)) == NOT_FOUND
    must("nvmlDeviceGetHandleByPciBusId_v2", b"0000:01:00.0", byref(device))
    assert code("nvmlDeviceGetIndex", c_void_p(4096), byref(count)) == INVALID_ARGUMENT
    NVML.nvmlErrorString.restype = c_char_p
    assert NVML.nvmlErrorString(INSUFFICIENT_SIZE) == b"Insufficient Size"

    text = ctypes.create_string_buffer(96)
    must("nvmlDeviceGetUUID", device, text, 96)
    assert text.value.startswith(b"GPU-") and len(text.value) == 40
    assert code("nvmlDeviceGetUUID", device, text, 40) == INSUFFICIENT_SIZE

    # The driver in this process: its context and one page.
    driver = ctypes.CDLL("libcuda.so.1")
    context, pointer = c_void_p(), c_uint64()
    assert driver.cuInit(0) == 0
    assert running("nvmlDeviceGetComputeRunningProcesses", ProcessV1, device)[:2] == (0, 0)
    assert driver.cuDevicePrimaryCtxRetain(byref(context), 0) == 0
    assert driver.cuCtxSetCurrent(context) == 0
    assert driver.cuMemAlloc_v2(byref(pointer), c_uint64(1)) == 0
    physical = c_uint64()
    assert driver.gpumem_sim_books(0, b"physical", byref(physical), None) == 0

    memory = Memory()
    must("nvmlDeviceGetMemoryInfo", device, byref(memory))
    reserved = 300 * MIB
    assert memory.total == 16384 * MIB + reserved
    assert memory.used == physical.value + reserved, "the first form has the reserved bytes in used"
    assert memory.total == memory.used + memory.free

    for name, kind in (
        ("nvmlDeviceGetComputeRunningProcesses", ProcessV1),
        ("nvmlDeviceGetComputeRunningProcesses_v2", Process),
        ("nvmlDeviceGetComputeRunningProcesses_v3", Process),
    ):
        got, number, processes = running(name, kind, device)
        assert (got, number) == (0, 1), name
        assert (processes[0].pid, processes[0].used) == (os.getpid(), physical.value)
        assert running(name, kind, device, room=0)[:2] == (INSUFFICIENT_SIZE, 1)
        assert getattr(processes[0], "gpu_instance", 2**32 - 1) == 2**32 - 1

    # The calls of PyTorch at compute capability 9.0, with both possible structures.
    for size, version in ((36, 2), (40, 3)):
        fabric = (c_uint32 * 10)(size | version << 24, *[7] * 9)
        must("nvmlDeviceGetGpuFabricInfoV", device, fabric)
        words = size // 4
        assert list(fabric[1 : words - 1]) == [0] * (words - 2)
        assert list(fabric[words:]) == [7] * (10 - words), "not a byte too many"
    wrong = (c_uint32 * 10)(36 | 9 << 24)
    assert code("nvmlDeviceGetGpuFabricInfoV", device, wrong) == ARGUMENT_VERSION_MISMATCH
    assert code("nvmlDeviceGetNvLinkRemoteDeviceType", device, 0, byref(count)) == NOT_SUPPORTED
    assert code("nvmlDeviceGetTemperature", device, 0, byref(count)) == NOT_SUPPORTED

    must("nvmlShutdown")
    must("nvmlDeviceGetCount_v2", byref(count))
    must("nvmlShutdown")
    assert code("nvmlDeviceGetCount_v2", byref(count)) == UNINITIALIZED
    print("NVML holds")


if __name__ == "__main__":
    main()
