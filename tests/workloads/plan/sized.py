"""Sizes that depend on device data: one by a count, one by arithmetic on the host, far from the line that read it."""

import torch
from torch import nn

network = nn.Linear(8, 1, device="cuda")


def length():
    with torch.no_grad():
        return network(torch.randn(256, 8, device="cuda")).relu().sum()


def wanted(number):
    return 1000 + 3 * number


counted = (network(torch.randn(256, 8, device="cuda")) > 0).sum()
rows = int(counted.item())  # read: item
first = torch.empty(rows + 1, 1024, device="cuda")
other = int(length() * 7)  # read: item
# Nothing here says that this size is a guess.
second = torch.empty(wanted(other), 1024, device="cuda")
host = counted.cpu()  # read: copy to host
third = torch.empty(2 * int(host) + 1, device="cuda")  # read: item
known = torch.arange(10, device="cuda").sum().item()  # known
fourth = torch.empty(known, 1024, device="cuda")
print("SIZES", first.shape[0], second.shape[0], third.shape[0], fourth.shape[0])
