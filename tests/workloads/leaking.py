"""A training in which a different function makes each kind of block that stays: `--leak` appends a tensor to a list
in each step; a ring buffer and a cache are kept either way. Sizes vary from step to step where real ones do."""

import argparse
from collections import deque

import torch
from torch import nn

import winds_up  # noqa: F401

KEPT, RING, CACHE = [], deque(maxlen=4), {}


def leak(step):
    KEPT.append(torch.zeros(12288, device="cuda"))


def ring(step):
    RING.append(torch.zeros(4096 + 1024 * (step % 3), device="cuda"))


def cache(step):
    key = min(step, 4)
    if key not in CACHE:
        CACHE[key] = torch.zeros(2048, device="cuda")


def passing(step):
    """Comes and goes: most of it within one step, the last lives on into the next."""
    for size in range(8):
        last = torch.zeros(1024 * (size + 1 + step % 5), device="cuda")
    return last


def build():
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8)).cuda()


def train(steps, leaking):
    torch.manual_seed(0)
    model = build()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(steps):
        inputs = torch.randn(16 + step % 4, 64, device="cuda")
        last = passing(step)
        ring(step)
        cache(step)
        if leaking:
            leak(step)
        loss = model(inputs).sum() + last.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--leak", action="store_true")
    options = parser.parse_args()
    train(options.steps, options.leak)
