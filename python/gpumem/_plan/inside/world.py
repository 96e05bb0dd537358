"""One rank of many, alone: what asks for a process group gets PyTorch's fake one. Its collectives return at once, as though all
ranks had the same data.

Which rank of how many is in RANK and WORLD_SIZE, as launchers have it; the planner sets them."""

from __future__ import annotations

import functools
import os
from typing import Any, Callable

FAKE = "fake"


def install(torch: Any) -> None:
    if not torch.distributed.is_available():
        return
    from torch.distributed import distributed_c10d as c10d

    _replace(torch, c10d, "init_process_group", _first_group(c10d.init_process_group))
    for name in ("new_group", "split_group"):
        if hasattr(c10d, name):
            _replace(torch, c10d, name, _another_group(getattr(c10d, name)))
    _replace(torch, c10d, "get_backend", _backend(c10d.get_backend))


def _replace(torch: Any, c10d: Any, name: str, function: Callable[..., Any]) -> None:
    """In all modules that have the function under its name."""
    before = getattr(c10d, name)
    for module in (c10d, torch.distributed):
        if getattr(module, name, None) is before:
            setattr(module, name, function)


def _options(fake: Any) -> Any:
    """That results are as though all ranks had the same data, where a release has such an option."""
    options = getattr(fake, "Options", None)
    if options is None:
        return None
    made = options()
    if not hasattr(made, "simulate_uniform_ranks"):
        return None
    made.simulate_uniform_ranks = True
    return made


def _first_group(real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def init_process_group(backend: Any = None, *_: Any, **options: Any) -> Any:
        from torch.testing._internal.distributed import fake_pg

        asked["backend"] = str(backend or "nccl")
        world, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
        kept = {name: options[name] for name in ("timeout",) if options.get(name) is not None}
        made = _options(fake_pg.FakeProcessGroup)
        if made is not None:
            kept["pg_options"] = made
        return real(FAKE, store=fake_pg.FakeStore(), world_size=world, rank=rank, **kept)

    return init_process_group


def _another_group(real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def group(*words: Any, **options: Any) -> Any:
        for name in ("backend", "pg_options", "device_id"):
            options.pop(name, None)
        # ranks, timeout, backend, …; parent, ranks, timeout, …
        return real(*words[:2], **options)

    return group


def _backend(real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def get_backend(*words: Any, **options: Any) -> Any:
        """What was asked for: programs choose by it."""
        said = real(*words, **options)
        return asked.get("backend", said) if said == FAKE else said

    return get_backend


# What the program asked for.
asked: "dict[str, str]" = {}
