"""`waiting.py KIND`: loops that end on a value that only a real device computes."""

import sys

import torch
from torch import nn

network = nn.Linear(8, 1, device="cuda")
with torch.no_grad():
    if sys.argv[1] == "still":
        while not (network(torch.randn(4, 8, device="cuda")) > 1e9).any():  # read: item
            pass
    elif sys.argv[1] == "changing":
        error = network(torch.randn(4, 8, device="cuda")).abs().sum() - 1.0
        while error.item() < 1e9:  # read: item
            error = error + 1
    else:
        left, seen = torch.ones(1000, device="cuda"), 0
        while left.sum().item() > 0:  # read: known
            left[seen] = 0
            seen += 1
        print("SEEN", seen)
