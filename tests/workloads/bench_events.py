"""Times tensor events in real PyTorch. Run by scripts/bench; prints one JSON object.

`events`: nanoseconds of one `torch.empty(…, device="cuda")` and the free that follows it, at a Python
depth of DEPTH frames. `step`: milliseconds of one training step of a small transformer.
With --recorder the same once more under PyTorch's own recorder.
"""

import argparse
import json
import statistics
import time

import torch
from torch import nn

DEPTH = 20


def descend(depth, work):
    """Calls `work` with `depth` more Python frames on the stack."""
    if depth:
        return descend(depth - 1, work)
    return work()


def pairs(count):
    """Seconds that `count` pairs of allocation and free take."""
    device = torch.device("cuda")
    began = time.perf_counter()
    for _ in range(count):
        torch.empty(1024, device=device)
    return time.perf_counter() - began


def events(count, rounds):
    descend(DEPTH, lambda: pairs(count))
    taken = [descend(DEPTH, lambda: pairs(count)) / count * 1e9 for _ in range(rounds)]
    return statistics.median(taken)


class Block(nn.Module):
    def __init__(self, width=256, heads=8):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


def trainer():
    model = nn.Sequential(*[Block() for _ in range(4)]).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    x = torch.randn(8, 64, 256, device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        model(x).pow(2).mean().backward()
        optimizer.step()

    return step


def steps(step, count):
    for _ in range(5):
        step()
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        step()
        taken.append((time.perf_counter() - began) * 1e3)
    return statistics.median(taken)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--recorder", choices=["python", "all"])
    options = parser.parse_args()
    torch.backends.cudnn.enabled = False
    step = trainer()
    step()
    if options.recorder:
        torch.cuda.memory._record_memory_history(
            "all", stacks=options.recorder, max_entries=100_000
        )
    result = {"pair_ns": events(options.pairs, options.rounds), "step_ms": steps(step, options.steps)}
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    step()
    result["allocations_per_step"] = torch.cuda.memory_stats()["allocation.all.allocated"] - before
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
