"""One configuration of scripts/bench, as a server: reads a command a line, answers with a JSON line.

    loop N     N times: allocate 1 KiB that PyTorch has cached, and free it; nanoseconds of each pair
    step N     N training steps of a transformer block; nanoseconds of each step

bench_alloc.py off|python|all: what PyTorch's own recorder does meanwhile. The allocations are made at
the depth of a real training: the Python functions and the nn.Modules below stand on the stack."""

import json
import sys
import time

import torch
from torch import nn

import simulator
from train import Block


class Innermost(nn.Module):
    """Allocates and frees, `count` times over."""

    def forward(self, count):
        empty, device = torch.empty, torch.device("cuda")
        began = time.perf_counter_ns()
        for _ in range(count):
            kept = empty(256, device=device)
            del kept
        return (time.perf_counter_ns() - began) / count


class Layer(nn.Module):
    """One more module around another: two Python frames and C++ between them, as in a model."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, count):
        return self.inner(count)


def model(layers):
    inner = Innermost()
    for _ in range(layers):
        inner = Layer(inner)
    return inner


def training(steps):
    """A function that trains one block, and says how long a step took."""
    block = Block(128, 4).cuda()
    optimizer = torch.optim.Adam(block.parameters())

    def run(count):
        began = time.perf_counter_ns()
        for _ in range(count):
            optimizer.zero_grad()
            block(torch.randn(8, 64, 128, device="cuda")).sum().backward()
            optimizer.step()
        torch.cuda.synchronize()
        return (time.perf_counter_ns() - began) / count

    run(steps)
    return run


def main():
    simulator.prepare(torch)
    loop, step = model(8), training(3)
    recorder = sys.argv[1]
    if recorder != "off":
        torch.cuda.memory._record_memory_history(stacks=recorder, max_entries=100_000)
    loop(1000)
    commands = {"loop": loop, "step": step}
    for line in sys.stdin:
        command, count = line.split()
        print(json.dumps(commands[command](int(count))), flush=True)


if __name__ == "__main__":
    main()
