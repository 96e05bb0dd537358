"""Durations of the recorder's queries of the card: medians in microseconds, on an idle card with one context."""

import ctypes
import statistics
import time
from ctypes import byref, c_size_t, c_uint32, c_void_p

import figures
import torch

ROUNDS = 200


def timed(ask):
    """The median and the slowest of ROUNDS calls."""
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        ask()
        times.append((time.perf_counter() - began) * 1e6)
    return f"median {statistics.median(times):.1f} us, slowest {max(times):.1f} us"


def main():
    kept = [torch.empty(1 << 20, device="cuda") for _ in range(100)]
    cuda, nvml = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnvidia-ml.so.1")
    began = time.perf_counter()
    nvml.nvmlInit_v2()
    print(f"nvmlInit_v2: {(time.perf_counter() - began) * 1e6:.0f} us")
    device = c_void_p()
    nvml.nvmlDeviceGetHandleByUUID(figures.device_uuid(cuda), byref(device))
    memory = figures.Memory(version=ctypes.sizeof(figures.Memory) | 2 << 24)
    free, total = c_size_t(), c_size_t()

    def processes():
        count, rows = c_uint32(256), (figures.Process * 256)()
        nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, byref(count), rows)

    def graphics():
        count, rows = c_uint32(256), (figures.Process * 256)()
        nvml.nvmlDeviceGetGraphicsRunningProcesses_v3(device, byref(count), rows)

    print("cuMemGetInfo_v2:", timed(lambda: cuda.cuMemGetInfo_v2(byref(free), byref(total))))
    print("nvmlDeviceGetMemoryInfo_v2:", timed(lambda: nvml.nvmlDeviceGetMemoryInfo_v2(device, byref(memory))))
    print("nvmlDeviceGetComputeRunningProcesses_v3:", timed(processes))
    print("nvmlDeviceGetGraphicsRunningProcesses_v3:", timed(graphics))
    print("blocks kept:", len(kept))


if __name__ == "__main__":
    main()
