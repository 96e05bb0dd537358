"""A fragmented pool: blocks of several sizes of which every other one is freed, and some that are freed at once.
Prints PyTorch's own snapshot of the pool as JSON, and ends without freeing more."""

import functools
import json
import os

import torch

MIB = 1 << 20
KEPT = []
empty = functools.partial(torch.empty, dtype=torch.uint8, device="cuda")  # without a separate frame


def small():
    for _ in range(40):
        KEPT.append(empty(200 << 10))


def large():
    for number in range(24):
        KEPT.append(empty((3 + number % 4) * MIB))


def huge():
    KEPT.append(empty(64 * MIB))
    KEPT.append(empty(66 * MIB))


def passing():
    """Each is freed before the next allocation."""
    for number in range(30):
        empty((1 + number % 5) * MIB)


def overlapping():
    """Each is freed after the next one has come."""
    last = None
    for number in range(20):
        last = empty((7 + number % 3) * MIB)
    del last


def spike():
    empty(300 * MIB)


def main():
    small()
    large()
    huge()
    passing()
    overlapping()
    spike()
    for number in range(len(KEPT) - 1, -1, -2):
        del KEPT[number]
    segments = torch.cuda.memory._snapshot()["segments"]
    print("SNAPSHOT", json.dumps(segments, default=str), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
