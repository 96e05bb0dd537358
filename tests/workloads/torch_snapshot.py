"""Trains a little with PyTorch's own memory history on, and writes its snapshot.

`torch_snapshot.py OUT.pickle [--stacks python|all] [--entries N] [--state] [--steps N] [--jit OUT.pickle]`.
A PyTorch without a history (1.12) writes its segments. What lives at the end stays alive: the process leaves
by os._exit."""

import argparse
import os
import pickle

import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(256, 1024)
        self.down = nn.Linear(1024, 10)

    def forward(self, x):
        hidden = F.relu(self.up(x))
        return self.down(hidden)


def train(steps, kept):
    net = Net().cuda()
    optimizer = torch.optim.Adam(net.parameters())
    for step in range(steps):
        x = torch.randn(64, 256, device="cuda")
        loss = net(x).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        kept.append(x.mean(dim=1))
    # The graph of one more forward lives at the end.
    kept.append((net, optimizer, net(torch.ones(32, 256, device="cuda")).sum()))


def pickled_by_the_library(path):
    """What C++ programs write: the same snapshot by PyTorch's own pickler (protocol 2)."""
    import ctypes

    library = ctypes.CDLL(os.path.join(torch.__path__[0], "lib", "libtorch_cuda.so"))
    function = library._ZN5torch4cuda24_memory_snapshot_pickledB5cxx11Ev
    text = (ctypes.c_char * 32)()  # a std::string
    function.argtypes = [ctypes.c_void_p]
    function(ctypes.addressof(text))
    start, length = ctypes.c_void_p.from_buffer(text, 0).value, ctypes.c_size_t.from_buffer(text, 8).value
    with open(path, "wb") as file:
        file.write(ctypes.string_at(start, length))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--stacks", default="python")
    parser.add_argument("--entries", type=int, default=10**9)
    parser.add_argument("--state", action="store_true", help="no trace, only the stacks of what is live")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--jit", help="the same, pickled by the library")
    options = parser.parse_args()
    kept = [torch.empty(1000, 1000, device="cuda")]
    memory = torch.cuda.memory
    has_history = hasattr(memory, "_record_memory_history")
    if has_history:
        memory._record_memory_history(
            enabled="state" if options.state else "all", stacks=options.stacks, max_entries=options.entries,
            global_record_annotations=True,
        )
    train(options.steps, kept)
    del kept[0]
    torch.cuda.empty_cache()
    if has_history:
        memory._dump_snapshot(options.out)
    else:
        with open(options.out, "wb") as file:
            pickle.dump(memory.memory_snapshot(), file)
    if options.jit:
        pickled_by_the_library(options.jit)
    os._exit(0)


if __name__ == "__main__":
    main()
