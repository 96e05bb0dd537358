"""Many short-lived blocks, allocated by calls of different depths; about 200 are live. Tensors, or blocks of the
host's heap for profilers of the heap.

    churn.py tensors|heap ALLOCATIONS"""

import random
import sys


def maker(what):
    """A function that allocates bytes, too many for Python's own pools."""
    if what == "heap":
        return bytearray
    import torch

    return lambda count: torch.empty(count, dtype=torch.uint8, device="cuda")


def layer(depth, make, count):
    """One of the frames of a stack."""
    if depth > 0:
        return layer(depth - 1, make, count)
    return make(count)


def main():
    make, dice, kept = maker(sys.argv[1]), random.Random(0), []
    for _ in range(int(sys.argv[2])):
        count = dice.randrange(600, 40_000)
        kept.append(layer(count % 12, make, count))
        if len(kept) > 200:
            kept[dice.randrange(200)] = kept[-1]
            kept.pop()
    print(f"{len(kept)} blocks kept", flush=True)


if __name__ == "__main__":
    main()
