"""A training of a large language model that is sharded over all ranks, with a decoder of Llama's shapes.

`--made` selects how the parameters come to the device: from the host's memory, as in most programs, from the meta
device, or from a file (`--weights`). `--write FILE` makes such a file and ends: its data is a hole."""

import argparse
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

parser = argparse.ArgumentParser()
parser.add_argument("--made", choices=("cpu", "meta", "file"), default="cpu")
parser.add_argument("--weights", metavar="FILE")
parser.add_argument("--write", metavar="FILE")
parser.add_argument("--layers", type=int, default=80)
parser.add_argument("--width", type=int, default=8192)
parser.add_argument("--hidden", type=int, default=28672)
parser.add_argument("--heads", type=int, default=64)
parser.add_argument("--groups", type=int, default=8)
parser.add_argument("--words", type=int, default=128256)
parser.add_argument("--length", type=int, default=2048)
parser.add_argument("--batch", type=int, default=1)
parser.add_argument("--steps", type=int, default=2)
parser.add_argument("--fused", action="store_true")
size = parser.parse_args()


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        narrow = size.width // size.heads * size.groups
        self.before, self.between = nn.RMSNorm(size.width), nn.RMSNorm(size.width)
        self.query, self.out = (nn.Linear(size.width, size.width, bias=False) for _ in range(2))
        self.key, self.value = (nn.Linear(size.width, narrow, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(size.width, size.hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(size.hidden, size.width, bias=False)

    def forward(self, x):
        h = self.before(x)
        query, key, value = (each(h).unflatten(-1, (-1, size.width // size.heads)).transpose(1, 2) for each in (self.query, self.key, self.value))
        h = functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        x = x + self.out(h.transpose(1, 2).flatten(2))
        h = self.between(x)
        return x + self.down(functional.silu(self.gate(h)) * self.up(h))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(size.words, size.width)
        self.blocks = nn.ModuleList(Block() for _ in range(size.layers))
        self.last = nn.RMSNorm(size.width)
        self.head = nn.Linear(size.width, size.words, bias=False)
        self.apply(self.begin)

    @staticmethod
    def begin(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.trunc_normal_(module.weight, std=0.02)

    def forward(self, x):
        x = self.words(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(self.last(x))


torch.set_default_dtype(torch.bfloat16)
if size.write:
    Decoder.begin = staticmethod(lambda module: None)
    with FakeTensorMode(), torch.serialization.skip_data(materialize_fake_tensors=True):
        torch.save(Decoder().state_dict(), size.write)
    sys.exit()
dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
with torch.device("cpu" if size.made == "cpu" else "meta"):
    model = Decoder()
if size.made == "file":
    model.load_state_dict(torch.load(size.weights, mmap=True), assign=True)
policy = MixedPrecisionPolicy(reduce_dtype=torch.float32)
for part in (model.words, *model.blocks, [model.last, model.head]):
    fully_shard(part, mp_policy=policy)
fully_shard(model, mp_policy=policy)
if size.made == "meta":
    model.to_empty(device="cuda")
    model.apply(Decoder.begin)
model.cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=size.fused or None)
for _ in range(size.steps):
    tokens = torch.randint(0, size.words, (size.batch, size.length + 1)).cuda()
    loss = functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1).float(), tokens[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"loss {loss.item():.3f}", flush=True)
