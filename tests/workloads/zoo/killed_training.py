"""killed_training.py: imports PyTorch once. For each line `LOG OUTPUT PAIRS` on stdin a forked child allocates and
frees PAIRS tensors one after the other, then trains with eight threads until it is killed from outside. Prints the
child's number, a line when its first thread trains, and how it ended.

After each call has returned, each thread writes the address of each tensor that the call has allocated or freed into
its part of the mapped file LOG; all of these must be in the capture. Sizes are logged for all tensors from `keep`,
each of which the thread frees itself, and for weights, which it never frees."""

import ctypes
import mmap
import os
import struct
import sys
import threading

import torch

THREADS, ENTRIES, KEPT = 8, 1 << 14, 20
PART = struct.Struct(f"<QQ{3 * ENTRIES}Q")
ALLOC, FREE = 1, 2


def keep(blocks):
    return torch.empty(128 * blocks, device="cuda")


def train(log, place, number):
    entries = 0
    # One store. struct.pack_into clears its bytes first: a process that is killed then has a log of nothing.
    logged = ctypes.c_uint64.from_buffer(log, place + 8)

    def wrote(kind, pointer, size=0):
        nonlocal entries
        if entries == ENTRIES:
            threading.Event().wait()
        struct.pack_into("<QQQ", log, place + 16 + 24 * entries, kind, pointer, size)
        entries += 1
        logged.value = entries
        if entries == KEPT and number == 0:
            os.write(1, b"trains\n")

    struct.pack_into("<Q", log, place, threading.get_native_id())
    width = 32 * (number + 1)
    model = torch.nn.Sequential(
        torch.nn.Linear(width, width, device="cuda"), torch.nn.ReLU(),
        torch.nn.Linear(width, 8, device="cuda"),
    )
    for weight in (model[0].weight, model[2].weight):
        wrote(ALLOC, weight.data_ptr(), 4 * weight.numel())
    kept = [None] * KEPT
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=False)
    for step in range(1 << 60):
        if (old := kept[step % KEPT]) is not None:
            address, size, kept[step % KEPT] = old.data_ptr(), 4 * old.numel(), None
            del old
            wrote(FREE, address, size)
        kept[step % KEPT] = keep(1 + step % 7 + 10 * number)
        wrote(ALLOC, kept[step % KEPT].data_ptr(), 4 * kept[step % KEPT].numel())
        batch = torch.empty(16 + entries % 5, width, device="cuda")
        wrote(ALLOC, batch.data_ptr())
        hidden = model[0](batch)
        wrote(ALLOC, hidden.data_ptr())
        scratch = torch.empty(4096 * (number + 1), device="cuda")
        address = scratch.data_ptr()
        wrote(ALLOC, address)
        out = model[2](model[1](hidden))
        wrote(ALLOC, out.data_ptr())
        del scratch
        wrote(FREE, address)
        out.sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def child(path, output, pairs):
    os.environ["GPUMEM_OUTPUT"] = output
    with open(path, "w+b") as file:
        file.truncate(PART.size * THREADS)
        log = mmap.mmap(file.fileno(), 0)
    few = [None] * 64
    for pair in range(pairs):
        few[pair * 31 % 64] = torch.empty(128 * (1 + pair * 40503 % 1009), device="cuda")
    del few
    for number in range(THREADS):
        threading.Thread(target=train, args=(log, PART.size * number, number), daemon=True).start()
    threading.Event().wait()


def main():
    for line in sys.stdin:
        path, output, pairs = line.split()
        pid = os.fork()
        if pid == 0:
            child(path, output, int(pairs))
        os.write(1, b"%d\n" % pid)
        os.write(1, b"%d\n" % os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    main()
