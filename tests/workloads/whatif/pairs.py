"""Nanoseconds of an allocation and its free from PyTorch's cache, the minimum of 60 rounds: by default; after a use
on another stream, from which on a recorder makes the allocator trace; or with an unused tracer that does nothing.

    python tests/workloads/whatif/pairs.py [traced | empty]"""

import ctypes
import os
import sys
import time

import torch

ROUND = 5000
PLUGGABLE = "N5torch4cuda22CUDAPluggableAllocator22CUDAPluggableAllocator"
TRACER = "_Z" + PLUGGABLE + "27attachAllocatorTraceTrackerESt8functionIFvRKN3c1022CachingDeviceAllocator10TraceEntryEEE"


def attach_empty():
    """Calls the allocator's attachAllocatorTraceTracker with a std::function of a function that only returns."""
    folder = os.path.join(os.path.dirname(torch.__file__), "lib")
    cuda, python = (ctypes.CDLL(os.path.join(folder, name)) for name in ("libc10_cuda.so", "libtorch_python.so"))

    def address(library, name):
        return ctypes.addressof(ctypes.c_char.in_dll(library, name))

    def word(at):
        return ctypes.c_size_t.from_address(at).value

    methods = address(python, "_ZTV" + PLUGGABLE + "E") + 16
    wanted = address(python, TRACER)
    slot = next(n for n in range(100) if word(methods + 8 * n) == wanted)
    allocator = word(address(cuda, "_ZN3c104cuda20CUDACachingAllocator9allocatorE"))
    # A std::function: data (two words), manager, invoker. No work is needed, so one function is both.
    nothing = address(ctypes.CDLL(None), "gnu_get_libc_version")
    function = (ctypes.c_size_t * 4)(0, 0, nothing, nothing)
    attach = ctypes.CFUNCTYPE(None, ctypes.c_size_t, ctypes.c_void_p)(word(word(allocator) + 8 * slot))
    attach(allocator, ctypes.addressof(function))


def main(mode):
    allocate, free = torch._C._cuda_cudaCachingAllocator_raw_alloc, torch._C._cuda_cudaCachingAllocator_raw_delete
    block = torch.empty(10, device="cuda")
    if mode == "traced":
        block.record_stream(torch.cuda.Stream())
    if mode == "empty":
        attach_empty()
    least = float("inf")
    for _ in range(60):
        start = time.perf_counter()
        for _ in range(ROUND):
            free(allocate(3 << 20, 0))
        least = min(least, time.perf_counter() - start)
    print(f"{least / ROUND * 1e9:.0f}")


main("".join(sys.argv[1:]))
