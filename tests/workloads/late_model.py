"""A model that is made late, in a function; argument `parallel` wraps it. Prints its loss, and what a program could see
of gpumem's way into it."""

import os
import sys

import torch
import winds_up  # noqa: F401


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv2 = torch.nn.Linear(512, 1024)
        self.out = torch.nn.Linear(1024, 512)

    def forward(self, x):
        return x + self.out(self.conv2(x))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer4 = torch.nn.ModuleList(Block() for _ in range(3))

    def forward(self, x):
        for block in self.layer4:
            x = block(x)
        return x


def train():
    torch.manual_seed(0)
    model = Net().cuda()
    if "parallel" in sys.argv:
        model = torch.nn.DataParallel(model, device_ids=[0])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        loss = model(torch.ones(2048, 512, device="cuda")).sum()
        loss.backward()
        optimizer.step()
    if "fails" in sys.argv:
        torch.empty(1 << 40, device="cuda")
    print(tuple(loss.shape), "sitecustomize" in sys.modules, [entry for entry in sys.path if "gpumem" in os.path.basename(entry)])


train()
