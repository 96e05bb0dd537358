"""torch.compile with reduce-overhead: inference by CUDA graphs."""

import torch
from torch import nn

model = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.LayerNorm(2048), nn.Linear(2048, 512)).cuda().half().eval()
compiled = torch.compile(model, mode="reduce-overhead")
with torch.no_grad():
    for _ in range(4):
        torch.compiler.cudagraph_mark_step_begin()
        output = compiled(torch.randn(64, 512, device="cuda", dtype=torch.float16))
    print(output.float().norm().item())
