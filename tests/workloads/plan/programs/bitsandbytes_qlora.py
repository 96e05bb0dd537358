"""bitsandbytes and peft: QLoRA on a model whose layers have 4 bits, with a paged 8-bit AdamW."""

import bitsandbytes as bnb
import torch
from bitsandbytes.nn import Linear4bit
from peft import LoraConfig, get_peft_model
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = (
            Linear4bit(a, b, bias=False, compute_dtype=torch.bfloat16, quant_type="nf4", compress_statistics=True)
            for a, b in ((width, 4 * width), (4 * width, width))
        )

    def forward(self, x):
        return x + self.down(nn.functional.silu(self.up(self.norm(x))))


model = nn.Sequential(*(Block(512) for _ in range(4))).to("cuda")
model = get_peft_model(model, LoraConfig(r=8, target_modules=["up", "down"]))
optimizer = bnb.optim.AdamW8bit([each for each in model.parameters() if each.requires_grad], lr=2e-4)
for _ in range(3):
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(torch.randn(4, 128, 512, device="cuda")).float().square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(loss.item())
