"""torch.compile: a transformer's training step, compiled with its default settings."""

import torch
from torch import nn

torch.set_float32_matmul_precision("high")
layer = nn.TransformerEncoderLayer(256, 8, 512, batch_first=True, dropout=0.0, norm_first=True)
model = nn.Sequential(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(256, 64)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
compiled = torch.compile(model)
for _ in range(3):
    loss = compiled(torch.randn(8, 128, 256, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(loss.item())
