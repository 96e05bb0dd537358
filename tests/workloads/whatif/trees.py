"""Trees of CUDA graphs, as `torch.compile` makes them: a function's graph is captured once for each path that leads
to it. Before another branch the graphs' pool is restored to the state at the beginning of the branch."""

import os

import torch
from torch import nn


def load():
    """Imports what compiles, for all processes that are forked from this one."""
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    import torch._dynamo
    import torch._inductor.cudagraph_trees  # noqa: F401

    torch._dynamo.config.recompile_limit = 100
    # Each length has a separate graph.
    torch._dynamo.config.automatic_dynamic_shapes = False


def _layers(width):
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)).cuda()


def _compiled(module):
    return torch.compile(module, backend="cudagraphs")


@torch.no_grad()
def branches():
    """Which function follows, and on how much, changes from one iteration to the next; some results are kept."""
    first, left, right = (_compiled(_layers(512)) for _ in range(3))
    kept = []
    for n in range(18):
        torch.compiler.cudagraph_mark_step_begin()
        x = first(torch.empty(512 * (1 + n // 6), 512, device="cuda"))
        for step in range(1 + n % 4):
            x = left(x) if (n + step) % 3 else right(x)
        kept.append(x[: 64 * n].clone())
        del kept[: n % 3], x


def compiled():
    """A training with a branch; the backward pass has graphs, too."""
    model, head = _compiled(nn.Sequential(_layers(512), _layers(512))), _compiled(_layers(512))
    optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()])
    for n in range(15):
        torch.compiler.cudagraph_mark_step_begin()
        x = model(torch.empty(256 * (1 + n // 5), 512, device="cuda"))
        if n % 2:
            x = head(x)
        x.pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


ALL = {program.__name__: program for program in (branches, compiled)}
