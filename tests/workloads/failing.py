"""failing.py HOW: a PyTorch program that goes wrong after it has used the card."""

import os
import sys

import torch

kept = torch.empty(1_000_000, device="cuda")
how = sys.argv[1]
print("going wrong by", how, flush=True)
if how == "raise":
    raise ValueError("a fault of the user's own")
if how == "exit":
    sys.exit(7)
if how == "abort":
    os.abort()
if how == "memory":
    torch.empty(2**45, dtype=torch.uint8, device="cuda")
if how == "recover":
    for _ in range(3):
        try:
            torch.empty(2**45, dtype=torch.uint8, device="cuda")
        except RuntimeError as error:
            print(type(error).__name__, str(error).split(".")[0])
    torch.cuda.empty_cache()
    print(torch.cuda.memory_allocated(), float(kept.sum()))
