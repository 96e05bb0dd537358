"""Many small tensors of two lines under PyTorch's own memory history: `torch_churn.py TIMES OUT.pickle`."""

import os
import sys

import torch


def one(elements):
    return torch.empty(elements, device="cuda")


def two(elements):
    first = one(elements)
    second = one(2 * elements)
    return second if first is not None else None


def main():
    torch.cuda.memory._record_memory_history(stacks="python")
    kept = []
    for number in range(int(sys.argv[1])):
        kept.append(two(100 + number % 50))
        if len(kept) > 100:
            kept = kept[50:]
    torch.cuda.memory._dump_snapshot(sys.argv[2])
    os._exit(0)


if __name__ == "__main__":
    main()
