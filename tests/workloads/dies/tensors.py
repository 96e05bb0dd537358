"""A leak in a list of tensors: the features of each batch stay on the card."""

import torch
from torch import nn
import winds_up  # noqa: F401
net = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 10)).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
features = []
for step in range(500):
    x = torch.randn(1024, 256, device="cuda")
    net(x).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    features.append(x.repeat(1, 2))
