"""Trains, and in the third backward pass, on autograd's own thread, prints PyTorch's figures and kills itself with
SIGKILL. Run directly, not under `tell.py`."""

import torch

import tell
from train import Model

model = Model().cuda()
optimizer = torch.optim.Adam(model.parameters())
for step in range(5):
    logits, features = model(torch.randn(8, 3, 32, 32, device="cuda"))
    if step == 2:
        features.register_hook(lambda gradient: tell.end("kill"))
    optimizer.zero_grad()
    logits.sum().backward()
    optimizer.step()
print("not reached")
