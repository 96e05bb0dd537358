"""modules_oracle.py OUT.json [names] [compile]: trains a transformer of 4 blocks, one of them checkpointed, and
writes the module of each allocation of a tensor, according to the program's own hooks.

Global forward hooks keep a stack of modules; a dispatch mode reads, around each operation, how many tensors have
been allocated. What an operation of the backward allocates belongs to the module in which its node was made."""

import ctypes
import json
import os
import sys
import threading

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules import module as hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

WIDTH, STEPS = 64, 3


class Counters(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("live", "peak", "allocations", "frees")]


def allocations(library=ctypes.CDLL(None), row=Counters()):
    library.gpumem_counters(0, 0, ctypes.byref(row))
    return row.allocations


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, 4, WIDTH // 4).permute(2, 0, 3, 1, 4)
        mixed = (q @ k.transpose(-1, -2)).softmax(-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.attn = nn.LayerNorm(WIDTH), Attention()
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.attn(self.norm(x))
        return x + self.mlp(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks, self.head = nn.ModuleList(Block() for _ in range(4)), nn.Linear(WIDTH, 10)

    def forward(self, x):
        for number, block in enumerate(self.blocks):
            x = checkpoint(block, x, use_reentrant=False) if number == 2 else block(x)
        return self.head(x).sum(-1)


class Oracle(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.stack, self.spans, self.of_node, self.main = [], [], {}, threading.get_ident()
        self.sequence = torch._C._autograd._get_sequence_nr()

    def pre(self, module, _inputs):
        self.stack.append(id(module))

    def post(self, module, _inputs, _output):
        assert self.stack.pop() == id(module)

    def at_work(self):
        if self.stack:
            return self.stack[-1]
        node = torch._C._current_autograd_node()
        return self.of_node.get(node._sequence_nr()) if node is not None else None

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        module = self.at_work()
        if threading.get_ident() == self.main:
            # Nodes are made before their operation gets here.
            now = torch._C._autograd._get_sequence_nr()
            for number in range(self.sequence, now):
                self.of_node[number] = module
            self.sequence = now
        before = allocations()
        result = function(*args, **(kwargs or {}))
        after = allocations()
        if after > before and module is not None:
            self.spans.append((before, after, module))
        return result


def main():
    out, *wants = sys.argv[1:]
    if "names" in wants:
        import gpumem  # noqa: F401
    torch.manual_seed(0)
    net = Net().cuda()
    optimizer = torch.optim.AdamW(net.parameters())
    oracle = Oracle()
    hooks.register_module_forward_pre_hook(oracle.pre)
    hooks.register_module_forward_hook(oracle.post, always_call=True)
    with oracle:
        for _ in range(STEPS):
            x = torch.randn(8, 32, WIDTH, device="cuda")
            F.mse_loss(net(x), torch.zeros(8, 32, device="cuda")).backward()
            optimizer.step()
            optimizer.zero_grad()
    try:
        torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError:
        pass
    if "compile" in wants:
        hooks._global_forward_pre_hooks.clear()
        hooks._global_forward_hooks.clear()
        hooks._global_forward_hooks_always_called.clear()
        compiled = torch.compile(net.blocks[0], backend="eager")
        with torch.no_grad():
            compiled(x)
            before = allocations()
            compiled(x)
        oracle.spans.append((before, allocations(), id(compiled)))
    modules = {id(module): (type(module).__name__, name) for name, module in net.named_modules()}
    told = {"spans": oracle.spans, "modules": modules, "live": torch.cuda.memory_allocated()}
    with open(out, "w") as file:
        json.dump(told, file)
    # What is live stays so.
    os._exit(0)


main()
