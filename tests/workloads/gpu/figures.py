"""The final figures of a workload of gpu-check, as a line `FIGURES {json}`: NVML's by ctypes (not by the recorder),
cuMemGetInfo, the recorder's counters, and PyTorch's own."""

import ctypes
import json
import os
import time
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint32, c_uint64, c_void_p


class Memory(ctypes.Structure):
    """nvmlMemory_v2_t."""

    _fields_ = [("version", c_uint32), ("total", c_uint64), ("reserved", c_uint64), ("free", c_uint64), ("used", c_uint64)]


class Process(ctypes.Structure):
    """nvmlProcessInfo_t."""

    _fields_ = [("pid", c_uint32), ("used", c_uint64), ("gpu_instance", c_uint32), ("compute_instance", c_uint32)]


def library(name):
    """A library that is loaded already, or can be."""
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


def device_uuid(cuda):
    """The UUID of CUDA's device 0 as NVML writes it."""
    raw = (ctypes.c_ubyte * 16)()
    if cuda.cuDeviceGetUuid(raw, 0) != 0:
        return None
    text = bytes(raw).hex()
    return f"GPU-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}".encode()


def nvml_figures(cuda):
    """The card's used bytes (with what the driver reserves) and each process's, by pid."""
    nvml = library("libnvidia-ml.so.1")
    uuid = device_uuid(cuda)
    if nvml is None or uuid is None or nvml.nvmlInit_v2() != 0:
        return None
    device, memory = c_void_p(), Memory(version=ctypes.sizeof(Memory) | 2 << 24)
    if nvml.nvmlDeviceGetHandleByUUID(c_char_p(uuid), byref(device)) != 0:
        return None
    if nvml.nvmlDeviceGetMemoryInfo_v2(device, byref(memory)) != 0:
        return None
    count, rows = c_uint32(256), (Process * 256)()
    listed = nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, byref(count), rows) == 0
    processes = {row.pid: row.used for row in rows[: count.value]} if listed else {}
    unknown = (1 << 64) - 1
    own = processes.pop(os.getpid(), None)
    known = [used for used in processes.values() if used != unknown]
    return {
        "card_used": memory.used + memory.reserved,
        "reserved": memory.reserved,
        "process": None if own in (None, unknown) else own,
        "others": sum(known),
        "other_processes": len(processes),
    }


def card_figures(cuda):
    """Used bytes as cuMemGetInfo has them; None without a context on this thread."""
    free, total = c_size_t(), c_size_t()
    if cuda.cuMemGetInfo_v2(byref(free), byref(total)) != 0:
        return None
    return total.value - free.value


def counters():
    """The recorder's counters of device 0 by level; None where nothing is recorded."""
    own = ctypes.CDLL(None)
    if not hasattr(own, "gpumem_counters"):
        return None
    result = {}
    for level, name in enumerate(("tensor", "driver", "host", "physical")):
        values = (c_uint64 * 4)()
        if own.gpumem_counters(c_int(0), c_int(level), values) == 0:
            result[name] = dict(zip(("live", "peak", "allocations", "frees"), values))
    return result


def torch_figures():
    """PyTorch's own figures of device 0, if this process has it."""
    import sys

    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    return {
        "version": torch.__version__,
        "backend": torch.cuda.get_allocator_backend(),
        "allocated": torch.cuda.memory_allocated(0),
        "max_allocated": torch.cuda.max_memory_allocated(0),
        "reserved": torch.cuda.memory_reserved(0),
        "max_reserved": torch.cuda.max_memory_reserved(0),
    }


def tell(**more):
    """Prints the line, and leaves without freeing or unloading anything: the capture's end is this
    moment. (Exit handlers would unload the runtime's kernels first.)"""
    cuda = ctypes.CDLL("libcuda.so.1")
    cuda.cuCtxSynchronize()
    time.sleep(0.5)  # the recorder's sampling thread has read NVML since the last allocation
    figures = {"nvml": nvml_figures(cuda), "cuMemGetInfo": card_figures(cuda), "counters": counters()}
    figures.update(torch=torch_figures(), **more)
    print(f"FIGURES {json.dumps(figures)}", flush=True)
    os._exit(0)
