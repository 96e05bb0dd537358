"""NVML's current figures, through ctypes: a test compares reports with them."""

import ctypes
import os
from ctypes import Structure, byref, c_uint32, c_uint64, c_void_p


class Memory(Structure):
    """nvmlMemory_t."""

    _fields_ = [("total", c_uint64), ("free", c_uint64), ("used", c_uint64)]


class Process(Structure):
    """nvmlProcessInfo_t since its second form."""

    _fields_ = [
        ("pid", c_uint32), ("used", c_uint64), ("gpu_instance", c_uint32), ("compute_instance", c_uint32),
    ]


def reading(index=0, pid=None):
    """{"process": bytes of the process (this one) on the card, "used": bytes used on the card,
    "others": bytes of all other processes}."""
    nvml = ctypes.CDLL("libnvidia-ml.so.1")

    def must(name, *arguments):
        got = getattr(nvml, name)(*arguments)
        if got != 0:
            raise RuntimeError(f"{name} gave {got}")

    must("nvmlInit_v2")
    device, memory = c_void_p(), Memory()
    must("nvmlDeviceGetHandleByIndex_v2", index, byref(device))
    must("nvmlDeviceGetMemoryInfo", device, byref(memory))
    count, processes = c_uint32(64), (Process * 64)()
    must("nvmlDeviceGetComputeRunningProcesses_v3", device, byref(count), processes)
    nvml.nvmlShutdown()
    by_pid = {process.pid: process.used for process in processes[: count.value]}
    own = by_pid.pop(pid or os.getpid(), 0)
    return {"process": own, "used": memory.used, "others": sum(by_pid.values())}
