"""Moments at which the recorder gets information that only the program has: the end of a step, and the end of the
program.

`add` registers a listener. It runs on the program's thread, with the GIL, and gets the optimizer that has stepped,
or None. Its exceptions are suppressed, so the program does not notice them."""

import atexit
import contextlib
import importlib.abc
import importlib.machinery
import sys
from types import ModuleType
from typing import Any, Callable, List, Optional, Sequence

from . import library

Listener = Callable[[Optional[Any]], None]

_OPTIMIZER = "torch.optim.optimizer"

_at_step: List[Listener] = []
_at_end: List[Listener] = []
_attached = False


def add(listener: Listener, at_end: Optional[Listener] = None) -> None:
    """Calls `listener` at the end of each step, and `at_end`, or it, at the end of the program, as long as this
    process is recorded."""
    if library.api_version() is None:
        return
    if not _at_step:
        _watch()
        atexit.register(_call, _at_end)
    _at_step.append(listener)
    _at_end.append(at_end or listener)


def step() -> bool:
    """Marks the end of a training step. From the first call on, steps are those that the program marks; before it,
    they are taken from PyTorch's optimizers. Returns whether the step was recorded."""
    _call(_at_step)
    return library.step()


def _call(listeners: List[Listener], optimizer: Optional[Any] = None) -> None:
    if listeners and library.recording():
        for listener in listeners:
            with contextlib.suppress(Exception):
                listener(optimizer)


def _stepped(optimizer: Any, _args: Any, _kwargs: Any) -> None:
    _call(_at_step, optimizer)


def _attach(module: ModuleType) -> None:
    """Registers a hook for the end of an optimizer's step: from PyTorch 2.1 on."""
    global _attached
    register = getattr(module, "register_optimizer_step_post_hook", None)
    if register is not None and not _attached:
        _attached = True
        register(_stepped)


def _watch() -> None:
    module = sys.modules.get(_OPTIMIZER)
    if module is not None:
        _attach(module)
    else:
        sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    """Detects the import of PyTorch's optimizers, which the other finders do, and is removed after that."""

    def find_spec(
        self, name: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if name != _OPTIMIZER:
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                _attach_once_loaded(spec)
                return spec  # type: ignore[no-any-return]
        return None


def _attach_once_loaded(spec: importlib.machinery.ModuleSpec) -> None:
    loader = spec.loader
    load = getattr(loader, "exec_module", None)
    if load is None:
        return

    def exec_module(module: ModuleType) -> None:
        load(module)
        with contextlib.suppress(Exception):
            _attach(module)

    with contextlib.suppress(Exception):
        loader.exec_module = exec_module  # type: ignore[union-attr, method-assign]
