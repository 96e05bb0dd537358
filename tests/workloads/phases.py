"""Training loops of several kinds, without NVTX: `phases.py LOOP`. test_e2e_backward.py has the phases and steps
that each must show."""

import os
import sys

import torch
from torch import nn

STEPS = 3


def model():
    return nn.Linear(16, 16).cuda()


def loss_of(made):
    return made(torch.zeros(4, 16, device="cuda")).sum()


def plain():
    made = model()
    optimizer = torch.optim.Adam(made.parameters())
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss_of(made).backward()
        optimizer.step()


def gathered():
    made = model()
    optimizer = torch.optim.SGD(made.parameters(), lr=0.1)
    for batch in range(4 * STEPS):
        loss_of(made).backward()
        if batch % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()


def adversarial():
    """Two optimizers, each after a separate backward."""
    first, second = model(), model()
    optimizers = [torch.optim.SGD(made.parameters(), lr=0.1) for made in (first, second)]
    for _ in range(STEPS):
        optimizers[0].zero_grad()
        loss_of(first).backward()
        optimizers[0].step()
        optimizers[1].zero_grad()
        loss_of(second).backward()
        optimizers[1].step()


def skipped():
    """The second step is left out, as a gradient scaler does after an overflow."""
    made = model()
    optimizer = torch.optim.SGD(made.parameters(), lr=0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(made).backward()
        if step != 1:
            optimizer.step()


def by_hand():
    """Without an optimizer."""
    made = model()
    for _ in range(STEPS):
        loss_of(made).backward()
        for parameter in made.parameters():
            parameter.grad = None


def closures():
    made = model()
    optimizer = torch.optim.LBFGS(made.parameters(), max_iter=2)

    def closure():
        optimizer.zero_grad()
        loss = loss_of(made)
        loss.backward()
        return loss

    for _ in range(STEPS):
        optimizer.step(closure)


def annotated():
    """Scopes of the program's own are none of an optimizer's."""
    with torch.autograd.profiler.record_function("mine"):
        plain()


def said():
    import gpumem

    made = model()
    optimizer = torch.optim.SGD(made.parameters(), lr=0.1)
    for step in range(STEPS):
        loss_of(made).backward()
        optimizer.step()
        optimizer.zero_grad()
        if step > 0:
            assert gpumem.step()


if __name__ == "__main__":
    torch.zeros(1, device="cuda")
    globals()[sys.argv[1]]()
    os._exit(0)
