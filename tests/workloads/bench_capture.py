"""Fills a capture with a given number of tensor events on many lines of a small training."""

import sys

import torch
from bench_events import trainer

torch.backends.cudnn.enabled = False
wanted = int(sys.argv[1])
step = trainer()
while torch.cuda.memory_stats().get("allocation.all.allocated", 0) * 2 < wanted:
    step()
stats = torch.cuda.memory_stats()
print(stats["allocation.all.allocated"] + stats["allocation.all.freed"])
