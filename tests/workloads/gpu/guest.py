"""A training that prints on stdout everything that must be the same with and without the recorder: each loss to the
bit, a digest of the parameters, PyTorch's own figures of its allocator. Figures that may differ (times) go to stderr.

    guest.py [--steps N] [--small] [--profiler | --graph | --compile | --loader | --out-of-memory | --history]"""

import argparse
import hashlib
import os
import statistics
import sys
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

WARM_UP = 20


class Block(nn.Module):
    """Attention and a feed-forward layer."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-2, -1)).softmax(dim=-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    """A language model of a few layers."""

    def __init__(self, width, layers, words=8192):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.blocks = nn.Sequential(*[Block(width, 8) for _ in range(layers)])
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        return self.head(self.blocks(self.words(tokens)))


def batches(options, length):
    """Batches for all steps, made by the loader's processes with `--loader`."""
    generator = torch.Generator().manual_seed(1)
    rows = torch.randint(0, 8192, (8 * options.steps, length), generator=generator)
    if options.loader:
        return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(rows), batch_size=8, num_workers=2, pin_memory=True)
    return [(rows[8 * n : 8 * n + 8],) for n in range(options.steps)]


def tell(model):
    """Digest of the parameters, and PyTorch's accounts."""
    torch.cuda.synchronize()
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().cpu().numpy().tobytes())
    print("parameters", digest.hexdigest())
    for name, value in sorted(torch.cuda.memory_stats().items()):
        print(name, value)


def train(model, options, length):
    """The training: each step's loss is kept on the card until the end."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
    forward = torch.compile(model) if options.compile else model
    losses, times = [], []
    for (tokens,) in batches(options, length):
        began = time.perf_counter()
        tokens = tokens.cuda(non_blocking=True)
        loss = F.cross_entropy(forward(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
        if options.beat:
            print("step", len(losses), flush=True)
    for loss in losses:
        print("loss", loss.item().hex())
    kept = times[WARM_UP:] or times
    print(f"STEP_US {statistics.median(kept) * 1e6:.1f}", file=sys.stderr)


def profiled(model, options, length):
    """The same under PyTorch's profiler: which kernels and runtime calls it saw, how often."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        train(model, options, length)
    counts, memory = {}, {}
    for event in profile.events():
        counts[event.name] = counts.get(event.name, 0) + 1
        memory[event.name] = memory.get(event.name, 0) + event.device_memory_usage
    for name in sorted(counts):
        print("seen", counts[name], memory[name], name)


def replayed(model, options, length):
    """A captured forward pass, replayed."""
    tokens = next(iter(batches(options, length)))[0].cuda()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), torch.no_grad():
        model(tokens)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), torch.no_grad():
        result = model(tokens).float().mean()
    for (fresh,) in batches(options, length):
        tokens.copy_(fresh)
        graph.replay()
        print("result", result.item().hex())


def out_of_memory():
    """Fills the card, and prints PyTorch's message and figures."""
    kept = []
    try:
        while True:
            kept.append(torch.empty(1 << 30, dtype=torch.uint8, device="cuda"))
    except torch.cuda.OutOfMemoryError as error:
        print(len(kept), str(error).replace(str(os.getpid()), "PID"))
    kept.clear()
    torch.cuda.empty_cache()
    print("afterwards", torch.cuda.memory_reserved())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--small", action="store_true")
    for mode in ("profiler", "graph", "compile", "loader", "out-of-memory", "history", "beat"):
        parser.add_argument(f"--{mode}", action="store_true")
    options = parser.parse_args()
    if options.history:
        torch.cuda.memory._record_memory_history(stacks="all", max_entries=1 << 24)
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True, warn_only=True)
    width, layers, length = (64, 1, 16) if options.small else (512, 6, 256)
    model = Model(width, layers).cuda()
    if options.out_of_memory:
        out_of_memory()
    elif options.graph:
        replayed(model, options, length)
    elif options.profiler:
        profiled(model, options, length)
    else:
        train(model, options, length)
    tell(model)


if __name__ == "__main__":
    main()
