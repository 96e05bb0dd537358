"""Two epochs with all phases: set-up, data, forward, backward and optimizer, an evaluation after each, and at the
end work after the training. `fail`: the last forward requests more than the card has."""

import sys

import torch
from torch import nn
import winds_up  # noqa: F401

SHAPE = (1024, 256)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256))

    def forward(self, x):
        return self.layers(x)


def train(net, optimizer, kept):
    for _ in range(4):
        x = torch.randn(*SHAPE, device="cuda")  # data
        optimizer.zero_grad()
        y = net(x)
        loss = (y - x).pow(2).mean()
        loss.backward()
        optimizer.step()
        kept.append((x, y.detach()))


@torch.no_grad()
def evaluate(net, kept):
    for _ in range(3):
        x = torch.randn(*SHAPE, device="cuda")  # data of the evaluation
        kept.append((x, net(x)))


def after(net, kept):
    x = torch.randn(64 * 1024, 256, device="cuda")  # after the training
    kept.append(net(x))
    if "fail" in sys.argv:
        torch.empty(1 << 40, dtype=torch.uint8, device="cuda")


kept = []
net = Net().cuda()
optimizer = torch.optim.Adam(net.parameters())
for epoch in range(2):
    train(net, optimizer, kept)
    evaluate(net, kept)
after(net, kept)
