"""A worker that belongs to GPU 1, and opens a context on GPU 0 by its first tensor."""

import torch

state = torch.zeros(1, device="cuda")  # before set_device: on GPU 0
torch.cuda.set_device(1)
weights = torch.zeros(64 << 20, device="cuda")
