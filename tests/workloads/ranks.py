"""Ranks of a job on PyTorch's fake process group, each a process forked from one that has imported PyTorch:

    ranks.py WORLD [--steps N] [--plain] [--runs N] [--plant RANK=WHAT ...]

Each trains the same small model; with `--plain` a tiny one without FSDP, for many steps. With `--runs` there are N jobs one after
the other, each in a separate folder (`run1`, …). WHAT is the difference in one rank: `layer` (one layer more), `batch` (twice the
batch), `leak:N` (4 MiB kept at the end of each step from step N on), `outside` (64 MiB outside PyTorch), `library:FILE` (another
build of CUDA's runtime, which allocates and frees a page), `oom:N` (runs out of memory in step N), `kill:N` (is killed in step N)."""

import argparse
import os
import signal
import sys

import torch
import winds_up  # noqa: F401
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore

parser = argparse.ArgumentParser()
parser.add_argument("world", type=int)
parser.add_argument("--steps", type=int, default=12)
parser.add_argument("--jobs", type=int, default=2)
parser.add_argument("--plain", action="store_true")
parser.add_argument("--runs", type=int, default=0)
parser.add_argument("--plant", action="append", default=[])
arguments = parser.parse_args()
planted = {int(rank): what for rank, _, what in (plant.partition("=") for plant in arguments.plant)}


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


def outside(size):
    import ctypes

    pointer = ctypes.c_void_p()
    assert ctypes.CDLL("libcudart.so.13").cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(size)) == 0


def other_runtime(file):
    import ctypes

    runtime, pointer = ctypes.CDLL(file), ctypes.c_void_p()
    assert runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(4096)) == 0
    assert runtime.cudaFree(pointer) == 0


def sharded(layers):
    torch.distributed.init_process_group("fake", rank=int(os.environ["RANK"]), world_size=arguments.world, store=FakeStore())
    model = nn.Sequential(*(Block(512) for _ in range(layers))).cuda()
    for block in model:
        fully_shard(block)
    fully_shard(model)
    return model


def train(rank):
    what, _, value = planted.get(rank, "").partition(":")
    step = int(value) if what in ("leak", "oom", "kill") else None
    torch.cuda.set_device(0)
    model = nn.Linear(512, 1).cuda() if arguments.plain else sharded(5 if what == "layer" else 4)
    optimizer = torch.optim.AdamW(model.parameters())
    if what == "outside":
        outside(64 << 20)
    elif what == "library":
        other_runtime(value)
    kept = []
    for number in range(1, arguments.steps + 1):
        x = torch.zeros(512 if what == "batch" else 256, 512, device="cuda")
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step and number >= step:
            if what == "leak":
                kept.append(torch.zeros(1 << 20, device="cuda"))
            elif what == "oom":
                kept.append(torch.zeros(1 << 40, device="cuda"))
            elif what == "kill":
                os.kill(os.getpid(), signal.SIGKILL)


def start(rank, folder):
    pid = os.fork()
    if pid == 0:
        os.makedirs(folder, exist_ok=True)
        os.chdir(folder)
        os.environ.update(RANK=str(rank), LOCAL_RANK="0", WORLD_SIZE=str(arguments.world))
        train(rank)
        sys.stdout.flush()
        sys.exit(0)
    return pid


folders = [f"run{run}" for run in range(1, arguments.runs + 1)] or ["."]
running = 0
for folder in folders:
    for rank in range(arguments.world):
        start(rank, folder)
        running += 1
        if running == arguments.jobs:
            os.wait()
            running -= 1
while running:
    os.wait()
    running -= 1
