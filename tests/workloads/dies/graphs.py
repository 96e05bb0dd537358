"""A leak of graphs: a list keeps each step's penalty with the graph that computed it."""

import torch
from torch import nn
import winds_up  # noqa: F401
net = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1)).cuda()
optimizer = torch.optim.Adam(net.parameters())
history = []
for step in range(200):
    x = torch.randn(1024, 512, device="cuda")
    net(x).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    y = net(x)
    penalty = y.pow(2).mean()
    history.append(penalty)
