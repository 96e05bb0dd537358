"""An evaluation with a forward hook that keeps each layer's output: torch.no_grad() does not drop what the hook holds."""

import gpumem
import torch
from torch import nn

kept = []
net = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1024)).cuda()
net[0].register_forward_hook(lambda module, given, result: kept.append(result))
with torch.no_grad():
    for _ in range(12):
        net(torch.randn(1024, 1024, device="cuda"))
        gpumem.step()
