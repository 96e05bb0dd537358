"""Two ranks, each on a separate card: the second has the larger share, and dies."""

import os
import subprocess
import sys

import torch
from torch import nn
import winds_up  # noqa: F401

def rank(number):
    share = [2048, 24576][number]
    device = torch.device("cuda", number)
    net = nn.Sequential(*(nn.Linear(512, 512) for _ in range(12))).to(device)
    for step in range(3):
        x = torch.randn(share, 512, device=device)
        net(x).mean().backward()
        for parameter in net.parameters():
            parameter.grad = None


if "RANK" in os.environ:
    rank(int(os.environ["RANK"]))
else:
    ranks = [
        subprocess.Popen(
            [sys.executable, __file__], env={**os.environ, "RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": "2"}
        )
        for number in range(2)
    ]
    sys.exit(max(process.wait() for process in ranks))
