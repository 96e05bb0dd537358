"""evaluation.py [--fixed]: a training that keeps every output of its evaluations, which docs/out-of-memory.md finds."""

import sys

import torch
import winds_up  # noqa: F401
from torch import nn


class Net(nn.Module):
    def __init__(self, width=1024, depth=6):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.head(x)


def train(net, optimizer, batches):
    for _ in range(batches):
        x = torch.randn(2048, 1024, device="cuda")
        y = torch.zeros(2048, dtype=torch.long, device="cuda")
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()


def evaluate(net, batches):
    outputs = []
    for _ in range(batches):
        x = torch.randn(2048, 1024, device="cuda")
        outputs.append(net(x))
    return torch.cat(outputs).argmax(dim=1)


def main():
    net = Net().cuda()
    optimizer = torch.optim.Adam(net.parameters())
    for epoch in range(2):
        train(net, optimizer, batches=8)
        if "--fixed" in sys.argv:
            with torch.no_grad():
                evaluate(net, batches=64)
        else:
            evaluate(net, batches=64)
        print("epoch", epoch, flush=True)


if __name__ == "__main__":
    main()
