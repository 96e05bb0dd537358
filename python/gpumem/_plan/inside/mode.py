"""The dispatch mode for the operations of a planned program.

Kernels do nothing on the simulator. For each eager operation, on every thread that runs Python or autograd, the
mode decides the contents of the result's memory: the values that the CPU computes from the same arguments, or
zeros. It also tracks whether the values are those of the real program. It creates only the device tensors that the
program would create."""

from __future__ import annotations

import atexit
import functools
import sys
import threading
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Optional

from . import plain_tensors, unseen
from .accumulation import Accumulation
from .computing import Values
from .counted import Counted
from .device_memory import DeviceMemory
from .known import Known
from .on_cpu import OnCpu
from .operations import Rule
from .reads import Reads

_installed: Optional[Any] = None


def ensure(torch: Any) -> Optional[Any]:
    """The process's mode, installed at the first call; `None` if this PyTorch has no dispatch modes."""
    global _installed
    if _installed is None:
        try:
            from torch.utils._python_dispatch import TorchDispatchMode

            push = torch._C._push_on_torch_dispatch_stack
            torch._C._len_torch_dispatch_stack()
            torch.UntypedStorage._weak_ref
        except (ImportError, AttributeError):
            sys.stderr.write(f"gpumem: PyTorch {torch.__version__} has no dispatch modes that last: values are not computed (2.1 has)\n")
            return None
        try:
            _installed = _mode(torch, TorchDispatchMode)
        except OSError as error:
            sys.stderr.write(f"gpumem: values are not computed: {error}\n")
            return None
        why = plain_tensors.ask_for_others()
        _installed.memory_differs = why
        if why:
            sys.stderr.write(f"gpumem: the program's memory can differ by the mode that computes values ({why})\n")
        push(_installed)
        _installed.values.calibrate()
        unseen.watch(torch, _installed.values.known, hider(torch))
        _on_each_thread(lambda: push(_installed), lambda: _leave(torch))
        atexit.register(_leave, torch)
    return _installed


def _leave(torch: Any) -> None:
    """Removes the mode at the end of a thread. Otherwise PyTorch would acquire the GIL to remove it, which aborts the
    process if Python has already ended. Code that runs while modules are unloaded must not need the mode either."""
    from torch.utils._python_dispatch import _pop_mode

    if torch._C._len_torch_dispatch_stack() == 1 and torch._C._get_dispatch_stack_at(0) is _installed:
        _pop_mode()


def _on_each_thread(begin: Any, end: Any) -> None:
    """Calls `begin` and `end` on each Python thread: modes are thread-local. Autograd's threads take them from the
    thread that calls it."""
    original = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    def _bootstrap_inner(self: threading.Thread) -> None:
        begin()
        try:
            original(self)
        finally:
            end()

    threading.Thread._bootstrap_inner = _bootstrap_inner  # type: ignore[attr-defined]


def _mode(torch: Any, base: Any) -> Any:
    """The mode. Its class can only be defined when PyTorch is imported."""

    others = torch._C._len_torch_dispatch_stack
    disabled = torch._C._disabled_torch_dispatch_impl

    class PlanMode(base):  # type: ignore[misc]
        supports_higher_order_operators = True

        @classmethod
        def is_infra_mode(cls) -> bool:
            return True

        @classmethod
        def ignore_compile_internals(cls) -> bool:
            return True

        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            # The base class's wrapper would import the compiler. `_hide_from_dynamo` excludes the code instead.
            return False

        def __init__(self) -> None:
            super().__init__()
            self.values = Values(torch)
            self.reads = self.values.reads
            self.values.through_mode = functools.partial(_pushed, torch, self)

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            for each in types:
                if each is not torch.Tensor and getattr(each, "__torch_dispatch__", None) is not disabled:
                    # The call is for another mode, or the operations of a subclass follow one by one.
                    return func(*args, **(kwargs or {})) if others() else NotImplemented
            return self.values.dispatch(func, args, kwargs or {})

    _hide_from_dynamo(torch, PlanMode)
    return PlanMode()


@contextmanager
def _pushed(torch: Any, mode: Any) -> Iterator[None]:
    from torch.utils._python_dispatch import _pop_mode

    torch._C._push_on_torch_dispatch_stack(mode)
    try:
        yield
    finally:
        _pop_mode()


def hider(torch: Any) -> Callable[[Any], None]:
    """A function that excludes functions of this package, which run inside compiled code, from the compiler."""
    try:
        skip = torch._C._dynamo.eval_frame.skip_code
    except AttributeError:
        return lambda function: None

    def hide(function: Any) -> None:
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        if code is not None:
            skip(code)

    return hide


def _hide_from_dynamo(torch: Any, mode: Any) -> None:
    hide = hider(torch)
    for owner in (mode, Values, Counted, Reads, OnCpu, Known, DeviceMemory, Rule, Accumulation):
        for member in vars(owner).values():
            hide(member)
