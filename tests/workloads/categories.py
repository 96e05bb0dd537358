"""Trainings, and an inference, that print the categories of their tensors: after each step the storages of
parameters, buffers, gradients and optimizer states, from the framework's lists, and a mark of gpumem's.

    categories.py [--untold] PROGRAM ... > moments.jsonl

With --untold the package reports no tensors: the recorder must find the categories itself."""

import contextlib
import gc
import json
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

import gpumem
import winds_up  # noqa: F401

WIDTH, HEADS, LENGTH, BATCH, VOCABULARY = 128, 4, 64, 4, 512


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)
        self.register_buffer("scale", torch.ones(WIDTH))

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).split(WIDTH, dim=2)
        scores = (q @ k.transpose(1, 2)).softmax(-1)
        x = x + self.out(scores @ v) * self.scale
        return x + self.down(F.gelu(self.up(x)))


class GPT(nn.Module):
    def __init__(self, blocks=3, checkpointed=()):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))
        self.head = nn.Linear(WIDTH, VOCABULARY)
        self.checkpointed = checkpointed

    def forward(self, tokens):
        x = self.embedding(tokens)
        for number, block in enumerate(self.blocks):
            x = checkpoint(block, x, use_reentrant=False) if number in self.checkpointed else block(x)
        return self.head(x)


def batch():
    tokens = torch.zeros(BATCH, LENGTH, dtype=torch.long).cuda()
    return tokens, torch.zeros(BATCH, LENGTH, dtype=torch.long, device="cuda")


def loss_of(model):
    tokens, wanted = batch()
    return F.cross_entropy(model(tokens).view(-1, VOCABULARY), wanted.view(-1))


moments = 0


def lists(models, optimizers, more=()):
    """What the framework has now: addresses of storages, by what they are for."""

    def storages(tensors):
        held = {}
        for tensor in tensors:
            tensor = getattr(tensor, "_local_tensor", tensor)
            if tensor is not None and tensor.is_cuda and tensor.untyped_storage().size():
                held[tensor.untyped_storage().data_ptr()] = True
        return sorted(held)

    parameters = [p for model in models for p in model.parameters()]
    return {
        "parameter": storages(parameters + list(more)),
        "buffer": storages(b for model in models for b in model.buffers()),
        "gradient": storages(p.grad for p in parameters + list(more)),
        "optimizer state": storages(
            value
            for optimizer in optimizers
            for state in optimizer.state.values()
            for value in state.values()
            if torch.is_tensor(value)
        ),
    }


def tell(program, models, optimizers, more=(), saved=()):
    """What the framework has now, and a mark."""
    global moments
    moments += 1
    name = f"moment {moments}"
    held = {**lists(models, optimizers, more), "saved": sorted(set(saved))}
    gpumem.mark(name)
    print(json.dumps({"program": program, "moment": name, **held}), flush=True)


def steps(program, model, optimizer, count=3, zero=None, **more):
    for _ in range(count):
        loss_of(model).backward()
        optimizer.step()
        tell(program, [model], [optimizer], **more)
        (zero or optimizer.zero_grad)()


def gpt():
    """Mixed precision, accumulation, a checkpointed block."""
    model = GPT(checkpointed=(1,)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(3):
        for _ in range(2):
            with torch.autocast("cuda", dtype=torch.float16):
                loss = loss_of(model)
            scaler.scale(loss / 2).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scaler.update()
        tell("gpt", [model], [optimizer])
        optimizer.zero_grad()


def saved():
    """What a forward keeps for its backward, by the hooks that PyTorch has for that."""
    model = GPT().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        kept = []

        def keep(tensor):
            kept.append(tensor.untyped_storage().data_ptr())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            loss = loss_of(model)
        tell("saved", [model], [optimizer], saved=kept)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def gan():
    generator = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 512)).cuda()
    critic = nn.Sequential(nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 1)).cuda()
    optimizers = [torch.optim.Adam(model.parameters()) for model in (generator, critic)]
    losses = []
    for _ in range(4):
        real, noise = torch.randn(32, 512, device="cuda"), torch.randn(32, 64, device="cuda")
        made = generator(noise)
        loss = critic(real).mean() - critic(made.detach()).mean()
        optimizers[1].zero_grad()
        loss.backward()
        optimizers[1].step()
        loss = critic(generator(noise)).mean()
        optimizers[0].zero_grad()
        loss.backward()
        optimizers[0].step()
        losses.append(loss)
        tell("gan", [generator, critic], optimizers)


class LoRA(nn.Module):
    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


def lora():
    model = GPT().requires_grad_(False)
    for block in model.blocks:
        block.qkv = LoRA(block.qkv)
    model = model.cuda()
    steps("lora", model, torch.optim.AdamW([p for p in model.parameters() if p.requires_grad]))


def foreach():
    model = GPT().cuda()
    steps("foreach", model, torch.optim.AdamW(model.parameters(), foreach=True))


def fused():
    model = GPT().cuda()
    steps("fused", model, torch.optim.AdamW(model.parameters(), fused=True))


def capturable():
    model = GPT().cuda()
    steps("capturable", model, torch.optim.Adam(model.parameters(), capturable=True))


def momentum():
    """Gradients that stay, and are set to zero."""
    model = GPT().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    steps("momentum", model, optimizer, zero=lambda: optimizer.zero_grad(set_to_none=False))


def on_the_card():
    """Made on the card, not moved to it."""
    with torch.device("cuda"):
        model = GPT()
    steps("on_the_card", model, torch.optim.AdamW(model.parameters()))


def compiled():
    model = GPT().cuda()
    run = torch.compile(model, backend="eager")
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        loss_of(run).backward()
        optimizer.step()
        tell("compiled", [model], [optimizer])
        optimizer.zero_grad()


def by_hand():
    """No module, and an optimizer that is none of PyTorch's."""
    weights = [torch.randn(256, 256, device="cuda", requires_grad=True) for _ in range(3)]
    velocity = [torch.zeros_like(weight) for weight in weights]
    for _ in range(3):
        x = torch.randn(64, 256, device="cuda")
        for weight in weights:
            x = (x @ weight).relu()
        x.square().mean().backward()
        with torch.no_grad():
            for weight, v in zip(weights, velocity):
                v.mul_(0.9).add_(weight.grad)
                weight.sub_(v, alpha=0.1)
        tell("by_hand", [], [], more=weights)
        for weight in weights:
            weight.grad = None


def ddp():
    """Gradients are parts of buckets."""
    from torch.nn.parallel import DistributedDataParallel

    with world("gloo", 1):
        model = GPT().cuda()
        run = DistributedDataParallel(model, gradient_as_bucket_view=True)
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(3):
            loss_of(run).backward()
            optimizer.step()
            tell("ddp", [model], [optimizer])
            optimizer.zero_grad()


def fsdp():
    """Sharded parameters, gathered for each module."""
    from torch.distributed.fsdp import fully_shard

    with world("fake", 2):
        model = GPT().cuda()
        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(3):
            loss_of(model).backward()
            optimizer.step()
            tell("fsdp", [model], [optimizer])
            optimizer.zero_grad()


@contextlib.contextmanager
def world(backend, size):
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.cuda.set_device(0)
    store = FakeStore() if backend == "fake" else dist.HashStore()
    dist.init_process_group(backend, rank=0, world_size=size, store=store)
    try:
        yield
    finally:
        dist.destroy_process_group()


def inference():
    """A cache that grows, as that of keys and values does."""
    model = GPT().cuda().eval().requires_grad_(False)
    cache = []
    with torch.inference_mode():
        for _ in range(12):
            tokens, _ = batch()
            hidden = model.embedding(tokens)
            for block in model.blocks:
                hidden = block(hidden)
            cache.append(model.head(hidden)[:, -1].clone())
            tell("inference", [model], [])


def main():
    programs = sys.argv[1:]
    if "--untold" in programs:
        programs.remove("--untold")
        gpumem._inside.library.tell_tensors = lambda addresses, role: 0
    for program in programs:
        globals()[program]()
        gc.collect()


if __name__ == "__main__":
    main()
