"""A server on 4 GiB: each token makes the keys and values of all its requests longer, until the card is full."""

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.cache = None

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        new = torch.stack([k, v])
        self.cache = new if self.cache is None else torch.cat([self.cache, new], dim=2)
        scores = q @ self.cache[0].transpose(-1, -2)
        return x + scores.softmax(-1) @ self.cache[1]


@torch.no_grad()
def serve(layers):
    x = torch.randn(64, 1, 256, device="cuda")
    while True:
        for layer in layers:
            x = layer(x)


serve(nn.ModuleList(Attention() for _ in range(24)).cuda())
