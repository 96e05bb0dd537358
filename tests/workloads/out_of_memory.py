"""out_of_memory.py HOW [die]: runs out of the card's memory in one of several ways, catches it, prints the
framework's own message, and continues or is killed after the recorder's report."""

import contextlib
import os
import resource
import signal
import sys
import time

import torch

import winds_up  # noqa: F401

MIB = 1 << 20


def blocks(count, mebibytes):
    return [torch.empty(mebibytes * MIB, dtype=torch.uint8, device="cuda") for _ in range(count)]


def full():
    weights = blocks(3, 100)
    activations = blocks(40, 10)
    return weights, activations, blocks(1, 600)


def fragmentation():
    # Each segment of the cache is of 20 MiB. Every second half of one is free again.
    halves = blocks(96, 9)
    kept = halves[::2]
    del halves
    return kept, blocks(1, 200)


def backward():
    weights = torch.empty(50 * MIB // 4, device="cuda", requires_grad=True)
    (weights * 2).sum().backward()
    return weights, blocks(1, 1200)


def own_limit():
    torch.cuda.set_per_process_memory_fraction(0.25)
    return blocks(10, 50)


def not_memory():
    blocks(1, 20)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as statm:
        used = int(statm.read().split()[0]) * resource.getpagesize()
    # The simulator keeps memory for real, as a driver keeps address space.
    resource.setrlimit(resource.RLIMIT_AS, (used + 100 * MIB, hard))
    try:
        return blocks(1, 300)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def reports():
    """Whether the recorder still makes its report of the failure."""
    names = []
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError), open(f"/proc/self/task/{task}/comm") as comm:
            names.append(comm.read().strip())
    return "gpumem-oom" in names


def main():
    try:
        {"full": full, "others": full, "fragmentation": fragmentation, "own_limit": own_limit,
         "not_memory": not_memory, "backward": backward}[sys.argv[1]]()
    except torch.OutOfMemoryError as error:
        print("CAUGHT", error, flush=True)
        if "die" in sys.argv:
            while reports():
                time.sleep(0.001)
            os.kill(os.getpid(), signal.SIGKILL)
    print("LIVE", torch.cuda.memory_allocated(), blocks(1, 2)[0].shape)


if __name__ == "__main__":
    main()
