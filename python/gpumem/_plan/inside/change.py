"""One common change for less memory, made to a program that does not have it. GPUMEM_PLAN_CHANGE selects it.

| change | effect |
|---|---|
| checkpoint | modules that contain modules, and whose class is in one ModuleList or Sequential at least twice, compute their forward again in the backward |
| autocast | the forward of the outermost module is under `torch.autocast("cuda", dtype=torch.bfloat16)` |
| offload | what the forward of the outermost module keeps for its backward is in host memory |
| adafactor | Adam and AdamW become Adafactor |
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from typing import Any, Callable, Dict

CHANGE = "GPUMEM_PLAN_CHANGE"
# Descriptions of the changes are appended to this file, one line each.
SAID = "GPUMEM_PLAN_CHANGED"


def install(torch: Any) -> None:
    name = os.environ.get(CHANGE, "")
    if name in _CHANGES:
        _CHANGES[name](torch)
    else:
        sys.stderr.write(f"gpumem: {CHANGE} names {name}, which is no change that a plan knows\n")


def _say(text: str) -> None:
    path = os.environ.get(SAID)
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(text + "\n")


def _checkpoint(torch: Any) -> None:
    from torch.nn.modules import module as modules
    from torch.utils.checkpoint import checkpoint

    seen: Dict[Any, int] = {}
    within = threading.local()

    def wrapped(real: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def forward(self: Any, *words: Any, **options: Any) -> Any:
            if getattr(within, "one", False) or not (self.training and torch.is_grad_enabled()):
                return real(self, *words, **options)
            within.one = True
            try:
                return checkpoint(functools.partial(real, self), *words, use_reentrant=False, **options)
            finally:
                within.one = False

        return forward

    def registered(parent: Any, _: str, child: Any) -> None:
        if child is None or not isinstance(parent, (torch.nn.ModuleList, torch.nn.Sequential)):
            return
        key = (id(parent), type(child))
        seen[key] = seen.get(key, 0) + 1
        if seen[key] == 2 and next(child.children(), None) is not None and type(child) not in done:
            done.add(type(child))
            type(child).forward = wrapped(type(child).forward)
            _say(type(child).__qualname__)

    done = {torch.nn.Sequential, torch.nn.ModuleList}
    modules.register_module_module_registration_hook(registered)


def _around_the_outermost(torch: Any, context: Callable[[], Any]) -> None:
    """Runs each forward of a module that no other module calls within the context."""
    real, depth = torch.nn.Module.__call__, threading.local()

    def called(self: Any, *words: Any, **options: Any) -> Any:
        if getattr(depth, "of", 0):
            return real(self, *words, **options)
        depth.of = 1
        try:
            with context():
                return real(self, *words, **options)
        finally:
            depth.of = 0

    torch.nn.Module.__call__ = called


def _autocast(torch: Any) -> None:
    _around_the_outermost(torch, lambda: torch.autocast("cuda", dtype=torch.bfloat16))


def _offload(torch: Any) -> None:
    _around_the_outermost(torch, lambda: torch.autograd.graph.save_on_cpu(pin_memory=False))


def _adafactor(torch: Any) -> None:
    from torch import optim

    real = getattr(optim, "Adafactor", None)
    if real is None:
        sys.stderr.write("gpumem: this PyTorch has no Adafactor\n")
        return

    class Adafactor(real):  # type: ignore[misc, valid-type]
        """With Adam's arguments; those that Adafactor does not have are left out."""

        def __init__(self, params: Any, lr: Any = 1e-3, *_: Any, weight_decay: float = 0.0, **__: Any):
            super().__init__(params, lr=lr, weight_decay=weight_decay)
            _say("Adafactor")

    for name in ("Adam", "AdamW"):
        for module in (optim, sys.modules.get(f"torch.optim.{name.lower()}")):
            if module is not None:
                setattr(module, name, Adafactor)


_CHANGES = {"checkpoint": _checkpoint, "autocast": _autocast, "offload": _offload, "adafactor": _adafactor}
