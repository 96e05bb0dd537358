"""Prints how much memory a program has used where each of its rounds begins, and ends it after some (tests/lib/planted)."""

import atexit
import os

import torch

LAST, begun = int(os.environ["MARKS"]), 0


def mark():
    """A round begins."""
    global begun
    free, total = torch.cuda.mem_get_info()
    reserved, allocated = torch.cuda.max_memory_reserved(), torch.cuda.max_memory_allocated()
    print("MARK", reserved, allocated, total - free - torch.cuda.memory_reserved(), flush=True)
    if begun == LAST:
        os._exit(0)
    begun += 1


atexit.register(mark)
