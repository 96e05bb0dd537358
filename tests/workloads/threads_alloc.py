"""Threads that allocate and free tensors at once: each on a separate stream, two of them on each device.

    threads_alloc.py THREADS ROUNDS

The last KEPT tensors of each thread live. Prints as JSON, for each thread, its id in the kernel, its device, and the
bytes of its tensors one after the other; and PyTorch's counts on each device at the end and at the peak."""

import json
import sys
import threading

import torch

KEPT = 10


def sizes(thread, rounds):
    """No two threads have a size in common."""
    return [512 * (1 + thread + 16 * (number % 29)) for number in range(rounds)]


def allocate(device, sizes, ready):
    """Allocates tensors of those sizes and returns the last ones."""
    kept = [None] * KEPT
    with torch.cuda.stream(torch.cuda.Stream(device)):
        ready.wait()
        for number, size in enumerate(sizes):
            kept[number % KEPT] = None
            kept[number % KEPT] = torch.empty(size, dtype=torch.uint8, device=device)
    return kept


def main():
    count, rounds = map(int, sys.argv[1:])
    devices = (count + 1) // 2
    ready, said, kept = threading.Barrier(count), {}, {}

    def run(thread):
        device = thread % devices
        asked = sizes(thread, rounds)
        said[thread] = {"id": threading.get_native_id(), "device": device, "sizes": asked}
        kept[thread] = allocate(device, asked, ready)

    threads = [threading.Thread(target=run, args=(thread,)) for thread in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    figures = [
        [torch.cuda.memory_allocated(device), torch.cuda.max_memory_allocated(device)]
        for device in range(devices)
    ]
    print(json.dumps({"threads": list(said.values()), "devices": figures}))


if __name__ == "__main__":
    main()
