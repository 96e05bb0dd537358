"""Eight blocks, trained for three steps; with `--checkpoint` their activations are computed again in backward."""

import sys

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import winds_up  # noqa: F401

blocks = nn.ModuleList(nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)) for _ in range(8)).cuda()
optimizer = torch.optim.Adam(blocks.parameters())


def forward(x):
    for block in blocks:
        x = x + (checkpoint(block, x, use_reentrant=False) if "--checkpoint" in sys.argv else block(x))
    return x


for _ in range(3):
    optimizer.zero_grad()
    forward(torch.randn(8192, 256, device="cuda")).sum().backward()
    optimizer.step()
