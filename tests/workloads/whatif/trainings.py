"""Small trainings. Kernels do nothing on the simulated card, so nothing here depends on a value."""

import random

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

# By whichever name the release has it; 1.12 has none.
set_settings = getattr(torch._C, "_accelerator_setAllocatorSettings", getattr(torch.cuda.memory, "_set_allocator_settings", None))


class Block(nn.Module):
    def __init__(self, width, heads=8):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, cache=None):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.first(x)).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        if cache is not None:
            if cache:
                k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
            cache[:] = [k, v]
        attended = (q @ k.transpose(-1, -2)).softmax(-1) @ v
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.second(x))))


def _train(model, batches, precision=None):
    optimizer = torch.optim.AdamW(model.parameters())
    for batch in batches:
        with torch.autocast("cuda", dtype=precision, enabled=precision is not None):
            loss = model(batch).float().pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


class Checkpointed(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.blocks = blocks

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return x


def gpt():
    model = Checkpointed(nn.ModuleList(Block(256) for _ in range(4))).cuda()
    _train(model, (torch.empty(4, 256, 256, device="cuda") for _ in range(4)), torch.bfloat16)


def convnet():
    layers = []
    for before, after in ((3, 32), (32, 64), (64, 128)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(), nn.MaxPool2d(2)]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)).cuda()
    _train(model, (torch.empty(random.choice([8, 16, 24]), 3, 96, 96, device="cuda") for _ in range(6)))


def lengths():
    model = nn.Sequential(*[Block(256) for _ in range(3)]).cuda()
    _train(model, (torch.empty(random.choice([2, 4]), random.randrange(64, 600), 256, device="cuda") for _ in range(8)))


@torch.no_grad()
def generate():
    blocks = nn.ModuleList(Block(256) for _ in range(4)).cuda()
    for _ in range(2):
        caches = [[] for _ in blocks]
        x = torch.empty(8, random.randrange(50, 200), 256, device="cuda")
        for _ in range(60):
            for block, cache in zip(blocks, caches):
                x = block(x, cache)
            x = x[:, -1:]


def fsdp():
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=0, world_size=4, store=FakeStore())
    model = nn.Sequential(*[Block(256) for _ in range(4)]).cuda()
    for block in model:
        fully_shard(block)
    fully_shard(model)
    _train(model, (torch.empty(4, 256, 256, device="cuda") for _ in range(3)))


def switches():
    """Settings are changed in between."""
    held = []
    for settings in ("roundup_power2_divisions:4", "expandable_segments:True", "max_split_size_mb:30", "expandable_segments:False"):
        held += [torch.empty(random.randrange(1, 60 << 20), dtype=torch.uint8, device="cuda") for _ in range(20)]
        set_settings(settings)
        del held[::3]


def warnings():
    """On a small card memory runs out again and again, and each time the other stream's cache can be emptied."""
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    for n in range(600):
        with torch.cuda.stream(streams[n % 2]):
            torch.empty(100 << 20, dtype=torch.uint8, device="cuda")


ALL = {train.__name__: train for train in (gpt, convnet, lengths, generate, fsdp, switches, warnings)}
