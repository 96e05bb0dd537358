"""Programs with one memory fault each, and the same without it: for the hints.

faults.py FAULT faulty|clean. Without their faults the trainings are all the same program."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

import winds_up  # noqa: F401

MIB = 1 << 20


class Net(nn.Module):
    """1 GiB of parameters, so that nothing small is worth a hint."""

    def __init__(self, in_place=True, keeps=False):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8192, 8192, device="cuda") for _ in range(4))
        self.in_place = in_place
        self.keeps = keeps

    def forward(self, x):
        held = []
        for layer in self.layers:
            h = layer(x)
            x = F.relu(h, inplace=self.in_place)
            held += [h] * self.keeps
        return x


def train(optimizer=torch.optim.SGD, rows=64, in_place=True, after=lambda: None):
    net = Net(in_place, keeps=rows > 64)
    optimizer = optimizer(net.parameters(), lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        net(torch.zeros(rows, 8192, device="cuda")).sum().backward()
        optimizer.step()
        after()


def optimizer_state(faulty):
    train(torch.optim.Adam if faulty else torch.optim.SGD)


def not_in_place(faulty):
    """What goes into the activations is held as long as the forward runs."""
    train(rows=16384, in_place=not faulty)


def cache_emptied(faulty):
    train(after=torch.cuda.empty_cache if faulty else lambda: None)


def workspaces(faulty):
    """32 MiB of workspace beside little, and beside much."""
    size = 1024 if faulty else 16384
    x = torch.zeros(size, size, device="cuda")
    return x @ x


def no_grad(faulty):
    net = Net(in_place=not faulty)
    with torch.enable_grad() if faulty else torch.inference_mode():
        return [net(torch.zeros(4096, 8192, device="cuda")) for _ in range(2)]


def steps(each, count=8):
    """A training with something after each step."""
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for number in range(count):
        optimizer.zero_grad()
        net(torch.zeros(64, 8192, device="cuda")).sum().backward()
        optimizer.step()
        each(net, number)


def kept_graphs(faulty):
    """A list of losses, with all that they were computed from, or of numbers."""
    losses = []

    def validate(net, _):
        loss = net(torch.zeros(1024, 8192, device="cuda")).sum()
        losses.append(loss if faulty else loss.item())

    steps(validate)
    return losses


def growing(faulty):
    """Samples of every step, or of the last four."""
    samples = []

    def sample(*_):
        samples.append(torch.empty(32 * MIB, dtype=torch.uint8, device="cuda"))
        if not faulty:
            del samples[:-4]

    steps(sample)
    return samples


def no_backward(faulty):
    """Validation that builds a graph and drops it unused."""

    def validate(net, _):
        with torch.set_grad_enabled(faulty):
            for _ in range(3):
                net(torch.zeros(4096, 8192, device="cuda")).sum().item()

    steps(validate)


def spikes(faulty):
    """What a sort needs beside its results, which stay for a while: of longer rows at each step, or of one length."""
    results = []

    def sort(_, number):
        results[:] = []
        length = (number + 1 if faulty else 8) * 4 * MIB
        results.extend(torch.sort(torch.zeros(length, device="cuda")))
        results.append(torch.empty(1024, device="cuda").fill_(1))

    steps(sort)


def cached_unused(faulty):
    """Blocks with gaps between them that fit no other request."""
    pieces = [torch.empty(64 * MIB, dtype=torch.uint8, device="cuda") for _ in range(20)]
    if faulty:
        del pieces[::2]
    pieces += [torch.empty(128 * MIB, dtype=torch.uint8, device="cuda") for _ in range(5)]
    return pieces


def imbalance(faulty):
    """Two cards."""
    sizes = (1024, 256) if faulty else (1024, 1000)
    return [torch.empty(size * MIB, dtype=torch.uint8, device=f"cuda:{at}") for at, size in enumerate(sizes)]


kept = globals()[sys.argv[1]](sys.argv[2] == "faulty")
torch.cuda.synchronize()
