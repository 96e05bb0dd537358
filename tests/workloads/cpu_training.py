"""Trains on the processor, where the arithmetic is real, and prints every bit of the result. One CUDA tensor starts
the recording."""

import hashlib

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
torch.set_num_threads(1)
torch.zeros(1, device="cuda")
layers = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 8))
optimizer = torch.optim.Adam(layers.parameters(), lr=1e-2)
for step in range(30):
    optimizer.zero_grad()
    batch = torch.randn(16, 32, requires_grad=True)
    loss = checkpoint(layers, batch, use_reentrant=step % 2 == 0).pow(2).mean()
    (slope,) = torch.autograd.grad(layers(batch).sum(), batch, create_graph=True)
    (loss + slope.pow(2).sum()).backward()
    optimizer.step()
state = b"".join(p.detach().numpy().tobytes() for p in layers.parameters())
print(hashlib.sha256(state).hexdigest(), loss.item().hex())
