"""What the program uses its tensors for: parameters and buffers of its modules, gradients, state of its optimizers, told to
the recorder at the ends of steps and of the program.

The recorder sees most of it by itself: what autograd accumulates gradients for, and what is made within an optimizer's step.
What it cannot see is asked for here: parameters that are not trained, those that are sharded, and their gradients."""

import contextlib
import weakref
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

from . import _framework_moments, _library

_PARAMETER, _GRADIENT, _OPTIMIZER_STATE, _BUFFER = 1, 2, 3, 4
# Ends of steps at which all is told after something has changed: what is made late in the first step is there by then.
_SETTLES = 2


class _Tensors:
    def __init__(self, tops: Callable[[], List[Any]]) -> None:
        self._tops = tops
        self._optimizers: "weakref.WeakKeyDictionary[Any, _Optimizer]" = weakref.WeakKeyDictionary()
        self._modules: Tuple[int, ...] = ()

    def step_ended(self, optimizer: Optional[Any] = None) -> None:
        if optimizer is not None:
            self._optimizers.setdefault(optimizer, _Optimizer()).step_ended(optimizer)
        tops = self._tops()
        modules = tuple(id(top) for top in tops)
        if modules != self._modules:
            self._modules = modules
            _tell_modules(tops)

    def program_ends(self, _optimizer: Optional[Any] = None) -> None:
        for optimizer in list(self._optimizers):
            _tell_optimizer(optimizer)
        _tell_modules(self._tops())


class _Optimizer:
    """What was there the last time that an optimizer stepped."""

    def __init__(self) -> None:
        self._had: Dict[str, int] = {}
        self._left = 0

    def step_ended(self, optimizer: Any) -> None:
        parameters = _parameters(optimizer)
        has = {"parameters": len(parameters), "states": len(optimizer.state)}
        if has != self._had:
            self._had, self._left = has, _SETTLES
        if self._left > 0:
            self._left -= 1
            _tell_optimizer(optimizer)
        elif any(hasattr(parameter, "_local_tensor") for parameter in parameters[:1]):
            # Gradients of sharded parameters are made anew in each step, and not by autograd's accumulation.
            _tell(_GRADIENT, (parameter.grad for parameter in parameters))


def _parameters(optimizer: Any) -> List[Any]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _tell_optimizer(optimizer: Any) -> None:
    parameters = _parameters(optimizer)
    _tell(_PARAMETER, parameters)
    _tell(_GRADIENT, (parameter.grad for parameter in parameters))
    states = (state.values() for state in optimizer.state.values() if isinstance(state, dict))
    _tell(_OPTIMIZER_STATE, (value for state in states for value in state))


def _tell_modules(tops: List[Any]) -> None:
    for top in tops:
        parameters = list(top.parameters())
        _tell(_PARAMETER, parameters)
        _tell(_GRADIENT, (parameter.grad for parameter in parameters))
        _tell(_BUFFER, top.buffers())


def _tell(role: int, things: Iterable[Any]) -> None:
    addresses = (_storage(thing) for thing in things)
    _library.tell_tensors([address for address in addresses if address], role)


def _storage(thing: Any) -> int:
    """Where the storage of a tensor on a GPU begins; 0 for all else."""
    with contextlib.suppress(Exception):
        tensor = getattr(thing, "_local_tensor", thing)
        if tensor.is_cuda:
            storage = getattr(tensor, "untyped_storage", None)
            return int(storage().data_ptr() if storage else tensor.data_ptr())
    return 0


def watch(tops: Callable[[], List[Any]]) -> None:
    """Has it told from now on. `tops` gives the modules that are part of no other."""
    tensors = _Tensors(tops)
    _framework_moments.add(tensors.step_ended, tensors.program_ends)
