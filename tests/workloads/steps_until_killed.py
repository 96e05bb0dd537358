"""Allocates and frees in a known order until it is killed, and prints its figures after each step with one write(2),
so that each printed step has happened. The order: step i allocates (i % 97 + 1) × 512 bytes; every third step then
frees the oldest tensor."""

import os

import torch

kept = []
step = 0
while True:
    kept.append(torch.empty((step % 97 + 1) * 512, dtype=torch.uint8, device="cuda"))
    if step % 3 == 2:
        kept.pop(0)
    figures = (step, torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated())
    os.write(1, b"%d %d %d\n" % figures)
    step += 1
