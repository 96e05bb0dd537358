"""The optimizer's state, which its first step allocates, does not fit."""

import torch
from torch import nn
import winds_up  # noqa: F401
net = nn.Sequential(*(nn.Linear(2048, 2048, bias=False) for _ in range(8))).cuda()
optimizer = torch.optim.Adam(net.parameters())
for step in range(3):
    net(torch.randn(4, 2048, device="cuda")).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
