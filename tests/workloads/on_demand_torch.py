"""Carries out each line of its input with PyTorch, until the input ends, and answers with PyTorch's own figures:
`train` a step of a small training, `hold BYTES` one more tensor, `drop` the oldest of those, `empty` the cache,
`fail` an allocation that is larger than the card."""

import ctypes
import json
import sys

import torch
import winds_up  # noqa: F401
from torch import nn

HELD = []


def figures():
    statistics = torch.cuda.memory_stats()
    return {
        "allocated": torch.cuda.memory_allocated(),
        "max_allocated": torch.cuda.max_memory_allocated(),
        "reserved": torch.cuda.memory_reserved(),
        "max_reserved": torch.cuda.max_memory_reserved(),
        "allocations": statistics["allocation.all.allocated"],
        "frees": statistics["allocation.all.freed"],
        "ooms": statistics["num_ooms"],
    }


def train(model, optimizer):
    model(torch.ones(64, 100, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    assert ctypes.CDLL(None).gpumem_step() == 0


def hold(size):
    HELD.append(torch.empty(size, dtype=torch.uint8, device="cuda"))


def main():
    model = nn.Sequential(nn.Linear(100, 3000), nn.ReLU(), nn.Linear(3000, 10)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for line in sys.stdin:
        word, *more = line.split()
        if word == "train":
            train(model, optimizer)
        elif word == "hold":
            hold(int(more[0]))
        elif word == "drop":
            del HELD[0]
        elif word == "empty":
            torch.cuda.empty_cache()
        elif word == "fail":
            try:
                hold(1 << 50)
            except torch.OutOfMemoryError:
                pass
        print(json.dumps(figures()), flush=True)


main()
