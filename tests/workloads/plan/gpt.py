"""A training like a user's script: blocks in a ModuleList, AdamW, the batch on the command line. It does not depend
on a plan. With `--report` it prints PyTorch's own peaks at the end."""

import argparse
import json

import torch
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--layers", type=int, default=6)
parser.add_argument("--fail", action="store_true")
parser.add_argument("--report", metavar="FILE")
options = parser.parse_args()


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.before, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.between, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.before(x)).view(batch, length, 3, 8, width // 8).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.between(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks, self.head = nn.ModuleList(Block(512) for _ in range(options.layers)), nn.Linear(512, 1000)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


model = Model().cuda()
optimizer = torch.optim.AdamW(model.parameters())
if options.fail:
    raise SystemExit("a fault of the program's own")
for _ in range(3):
    model(torch.randn(options.batch, 512, 512, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
if options.report:
    with open(options.report, "w") as file:
        json.dump(torch.cuda.memory_stats(), file)
