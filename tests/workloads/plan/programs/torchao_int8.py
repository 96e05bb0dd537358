"""torchao: the layers of a model get weights of 8 bits; then it infers."""

import torch
from torch import nn
from torchao.quantization import Int8WeightOnlyConfig, quantize_

model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024), nn.GELU(), nn.Linear(1024, 100)).to("cuda", torch.bfloat16).eval()
quantize_(model, Int8WeightOnlyConfig())
with torch.inference_mode():
    for _ in range(2):
        output = model(torch.randn(32, 1024, dtype=torch.bfloat16, device="cuda"))
print(output.shape)
