"""Nanoseconds of an allocation and its free from PyTorch's cache, the least of 60 rounds: as it is, or once a block was used on
another stream, from when on the allocator traces what it does.

    python tests/workloads/whatif/pairs.py [traced]"""

import sys
import time

import torch

ROUND = 5000


def main(traced):
    allocate, free = torch._C._cuda_cudaCachingAllocator_raw_alloc, torch._C._cuda_cudaCachingAllocator_raw_delete
    block = torch.empty(10, device="cuda")
    if traced:
        block.record_stream(torch.cuda.Stream())
    least = float("inf")
    for _ in range(60):
        start = time.perf_counter()
        for _ in range(ROUND):
            free(allocate(3 << 20, 0))
        least = min(least, time.perf_counter() - start)
    print(f"{least / ROUND * 1e9:.0f}")


main(len(sys.argv) > 1)
