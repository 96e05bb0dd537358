"""Training loops that read: GradScaler, clipped gradients, a check for NaN, early stopping, accuracy."""

import math

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
with torch.device("cuda"):
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda")
best, waited, steps = math.inf, 0, 0
inputs, labels = torch.randn(64, 16), torch.randint(4, (64,))
for step in range(50):
    x, y = inputs.cuda(), labels.cuda()
    assert y.max().item() < 4  # read: known
    with torch.autocast("cuda", torch.float16):
        loss = F.cross_entropy(model(x).float(), y)
    assert torch.isfinite(loss), "the loss is not finite"  # read: item
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)  # read: item
    scaler.step(optimizer)  # read: item
    scaler.update()  # read: item
    optimizer.zero_grad()
    steps += 1
    correct = (model(x).argmax(1) == y).float().mean().item()  # read: item
    if loss.item() < best - 1e-4:  # read: item
        best, waited = loss.item(), 0  # read: item
    else:
        waited += 1
    if waited > 3:
        break
print("STEPS", steps, math.isfinite(best), scaler.get_scale())
