"""Programs that differentiate gradients: inner loops whose graph an outer backward needs, and penalties of gradients."""

from __future__ import annotations

from random import Random

from graphs import GRAPHS, NEAR
from program import CULPRIT, HEAD, ROUND, Program, indented, kind, previous, rounds, sizes

WAITING = frozenset(["waiting_for_backward"])
HEAD = HEAD + "from torch.func import functional_call\n"
NET = "net = nn.Sequential(nn.Linear({dim}, {dim}), nn.Tanh(), nn.Linear({dim}, {dim})).cuda()\n"
INNER = f"""inner = F.mse_loss(functional_call(net, fast, (x,)), y){CULPRIT}
parts = torch.autograd.grad(inner, list(fast.values()), create_graph=True){CULPRIT}
fast = {{name: w - 0.1 * g for (name, w), g in zip(fast.items(), parts)}}
"""
OUTER = "outer = F.mse_loss(functional_call(net, fast, (x,)), y)\n"


def meta(rng: Random, body: str, of) -> str:
    setup = NET.format(dim=of.dim) + "opt = torch.optim.SGD(net.parameters(), 0.1)\n"
    if rng.random() < 0.5:
        return HEAD + setup + body
    return HEAD + f"def main():\n{indented(setup + body)}main()\n"


@kind
def inner_loop_too_long(rng: Random) -> Program:
    """The graph of all inner steps waits for the outer backward."""
    of, count = sizes(rng), rng.choice([2, 4, 8])
    steps = count + rng.choice([4, 40])
    body = f"""for step in range(100):
    x = {of.batch}
    y = torch.zeros_like(x)
    fast = dict(net.named_parameters())
    for inner_step in range({steps}):
        {ROUND}
{indented(INNER, 2)}{indented(OUTER)}    outer.backward()
    opt.step()
    opt.zero_grad()
"""
    fixes = {"fewer": [(f"range({steps})", "range(1)")], "batch": [(f"torch.randn({of.rows},", f"torch.randn({of.rows} // 16,")]}
    return Program(
        meta(rng, body, of), WAITING | previous(count), NEAR | frozenset(["activations"]), ("fast",), fixes,
        frozenset(["detach", "no_grad", "clone"]), count,
    )  # fmt: skip


@kind
def meta_losses_summed(rng: Random) -> Program:
    """The outer losses of several tasks are added up before one backward."""
    of, count = sizes(rng), rng.choice([2, 4])
    body = f"""for step in range(100):
    total = 0.0
    for task in range({count + rng.choice([3, 20])}):
        {ROUND}
        x = {of.batch}
        y = torch.zeros_like(x)
        fast = dict(net.named_parameters())
        for inner_step in range(2):
{indented(INNER, 3)}{indented(OUTER, 2)}        total = total + outer
    total.backward()
    opt.step()
    opt.zero_grad()
"""
    fixes = {"backward": [("total = total + outer", "outer.backward()"), ("    total.backward()\n", "")]}
    return Program(
        meta(rng, body, of), WAITING | previous(count), NEAR | frozenset(["activations"]), ("total",), fixes,
        frozenset(["detach", "no_grad", "clone"]), count,
    )  # fmt: skip


@kind
def gradient_penalty_summed(rng: Random) -> Program:
    """A running total has the graphs of all penalties, and so the inputs from which they were computed."""
    of, count = sizes(rng), rounds(rng)
    name = rng.choice(["penalties", "total_penalty"])
    body = f"""{name} = 0.0
for step in range(1000):
    {ROUND}
    x = {of.batch}.requires_grad_(){CULPRIT}
    (slope,) = torch.autograd.grad(net(x).sum(), x, create_graph=True){CULPRIT}
    penalty = (slope.norm(2, dim=1) - 1).square().mean()
    opt.zero_grad()
    penalty.backward()
    opt.step()
    {name} = {name} + penalty
"""
    fixes = {"detach": [("+ penalty", "+ penalty.item()")]}
    return Program(meta(rng, body, of), GRAPHS | previous(count), NEAR, (name,), fixes, rounds=count)
