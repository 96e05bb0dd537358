"""A batch that is too large: the activations of its first forward do not fit."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width=512, depth=12):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(20480, 512, device="cuda")
    loss = net(x).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
