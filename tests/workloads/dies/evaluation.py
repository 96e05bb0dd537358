"""An evaluation without torch.no_grad() that keeps its outputs."""

import torch
from torch import nn
import winds_up  # noqa: F401
net = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)).cuda()
optimizer = torch.optim.Adam(net.parameters())


def train(batches):
    for _ in range(batches):
        x = torch.randn(1024, 512, device="cuda")
        net(x).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def evaluate(batches):
    outputs = []
    for _ in range(batches):
        x = torch.randn(1024, 512, device="cuda")
        outputs.append(net(x))
    return torch.cat(outputs)


for epoch in range(2):
    train(8)
    evaluate(200)
