"""Fragmentation proper: every second buffer is dropped, and the next request is larger than any gap."""

import torch

MIB = 1 << 20


def buffers(count):
    return [torch.empty(9 * MIB, dtype=torch.uint8, device="cuda") for _ in range(count)]


halves = buffers(44)
kept = halves[::2]
del halves
large = torch.empty(150 * MIB, dtype=torch.uint8, device="cuda")
