"""A training with known lanes, folds and failures for the timeline: steps with phases, NVTX ranges and scopes,
marks, a second without an event before it, and requests that fail after it. `pinned` adds pinned memory."""

import os
import sys
import time

import torch
from torch import nn

import gpumem
import simulator  # noqa: F401  (the simulated card's profile)

STEPS = 4

small = torch.empty(1 << 10, dtype=torch.uint8).pin_memory()
time.sleep(1)
made = nn.Sequential(nn.Linear(256, 1024), nn.Linear(1024, 256)).cuda()
optimizer = torch.optim.Adam(made.parameters())
kept = []
for step in range(STEPS):
    with gpumem.scope("whole step"), torch.cuda.nvtx.range(f"batch {step}"):
        with torch.cuda.nvtx.range("forward pass"):
            loss = made(torch.zeros(64, 256, device="cuda")).sum()
        optimizer.zero_grad()
        loss.backward()
        with gpumem.scope("optimizer's"):
            optimizer.step()
    kept.append(torch.empty((step + 1) << 20, dtype=torch.uint8, device="cuda"))
    gpumem.mark(f"after {step}")
    time.sleep(0.01)
if "pinned" in sys.argv:
    kept.append(torch.empty(8 << 20, dtype=torch.uint8).pin_memory())
for _ in range(5):
    try:
        torch.empty(1 << 45, dtype=torch.uint8, device="cuda")
    except RuntimeError:
        pass
os._exit(0)
