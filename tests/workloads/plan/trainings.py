"""Trainings that need no values: `trainings.py MODEL [STEPS] [OPTION…]` with MODEL mlp, gpt, lstm or convnet.

Options: amp (float16 with a GradScaler), bf16, compile, graph (a captured step), foreach-off, clip, checkpoint, wide (larger than what is
computed). The last line has the allocator's own figures of peaks."""

import gc
import json
import os
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.backends.cudnn.enabled = False
torch.backends.cuda.enable_cudnn_sdp(False)

MODEL, STEPS, OPTIONS = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3, set(sys.argv[3:])
WIDTH = 1024 if "wide" in OPTIONS else 64


class Most(nn.Module):
    """Its backward is one of those that PyTorch does out of place while there is a mode."""

    def forward(self, x):
        return x - x.max(1, keepdim=True)[0]


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.first(x)).view(b, t, 3, 4, d // 4).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.drop(self.out(a.transpose(1, 2).reshape(b, t, d)))
        return x + self.drop(self.down(F.gelu(self.up(self.second(x)))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(1000, WIDTH), nn.Embedding(64, WIDTH)
        self.blocks = nn.ModuleList(Block(WIDTH) for _ in range(3))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 1000, bias=False)

    def forward(self, x):
        h = self.tokens(x) + self.places(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            h = checkpoint(block, h, use_reentrant=False) if "checkpoint" in OPTIONS else block(h)
        return self.head(self.norm(h))


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.one, self.two = (nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2))
        self.first, self.second = nn.BatchNorm2d(width), nn.BatchNorm2d(width)

    def forward(self, x):
        return F.relu(x + self.second(self.two(F.relu(self.first(self.one(x))))))


class LSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.rnn, self.head = nn.Embedding(500, 32), nn.LSTM(32, WIDTH, 2, dropout=0.1), nn.Linear(WIDTH, 500)

    def forward(self, x):
        return self.head(self.rnn(self.tokens(x))[0])


def made():
    """The model, and a function for a batch and its loss."""
    if MODEL == "mlp":
        model = nn.Sequential(nn.Linear(32, WIDTH), nn.ReLU(), nn.Dropout(0.2), nn.Linear(WIDTH, WIDTH), nn.GELU(), Most(),
                              nn.Linear(WIDTH, 10))
        return model, lambda m: F.cross_entropy(m(torch.randn(64, 32).cuda()).float(), torch.randint(10, (64,)).cuda())
    if MODEL == "convnet":
        model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), *(Residual(16) for _ in range(3)), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                              nn.Linear(16, 10))
        return model, lambda m: F.cross_entropy(m(torch.randn(8, 3, 32, 32).cuda()).float(), torch.randint(10, (8,)).cuda())
    words, model = (1000, GPT()) if MODEL == "gpt" else (500, LSTM())

    def loss(m):
        x = torch.randint(words, (8, 33)).cuda()
        return F.cross_entropy(m(x[:, :-1]).float().reshape(-1, words), x[:, 1:].reshape(-1))

    return model, loss


torch.manual_seed(0)
model, loss_of = made()
model = model.cuda()
step_model = torch.compile(model) if "compile" in OPTIONS else model
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False if "foreach-off" in OPTIONS else None)
scaler = torch.amp.GradScaler("cuda", enabled="amp" in OPTIONS)
kind = torch.float16 if "amp" in OPTIONS else torch.bfloat16
seconds, processor = [], time.process_time()
for step in range(STEPS):
    began = time.perf_counter()
    with torch.autocast("cuda", kind, enabled=bool(OPTIONS & {"amp", "bf16"})):
        loss = loss_of(step_model)
    scaler.scale(loss).backward()
    if "clip" in OPTIONS:
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    seconds.append(time.perf_counter() - began)
if "graph" in OPTIONS:
    del loss
    optimizer.zero_grad()
    x = torch.randn(64, 32, device="cuda")
    aside = torch.cuda.Stream()
    with torch.cuda.stream(aside):
        model(x).sum().backward()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = model(x).sum()
        y.backward()
    graph.replay()
gc.collect()
stats = torch.cuda.memory_stats()
names = ("allocated_bytes.all.peak", "reserved_bytes.all.peak", "active_bytes.all.peak", "requested_bytes.all.peak", "allocation.all.peak",
         "allocation.all.allocated", "allocated_bytes.all.allocated", "segment.all.peak", "allocated_bytes.all.current")
figures = {name: stats[name] for name in names}
figures["host random"] = torch.rand(1).item()
print("SECONDS", sorted(seconds)[len(seconds) // 2], "PROCESSOR", time.process_time() - processor)
print("FIGURES", json.dumps(figures), flush=True)
# At Python's end it is chance what PyTorch's threads still free.
os._exit(0)
