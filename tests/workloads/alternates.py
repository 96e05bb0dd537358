"""Epochs without steps: each evaluates, and drops the outputs that it kept. Nothing grows."""

import torch

weights = torch.randn(512, 512, device="cuda")


def update():
    global weights
    for _ in range(5):
        x = torch.randn(256, 512, device="cuda")
        weights = weights + (x.T @ x) * 1e-6


def evaluate():
    outputs = []
    for _ in range(10):
        x = torch.randn(256, 512, device="cuda")
        outputs.append(x @ weights)
    return torch.cat(outputs).mean()


for epoch in range(20):
    update()
    evaluate()
