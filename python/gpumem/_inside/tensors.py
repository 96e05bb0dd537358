"""Reports the roles of tensors to the recorder at the ends of steps and of the program: parameters and buffers of
modules, gradients, state of optimizers.

The recorder detects most roles itself: the tensors for which autograd accumulates gradients, and those that an
optimizer's step creates. This module reports the others: parameters that are not trained, sharded parameters, and
their gradients."""

import contextlib
import weakref
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

from . import library, moments

_PARAMETER, _GRADIENT, _OPTIMIZER_STATE, _BUFFER = 1, 2, 3, 4
# The number of steps at whose ends all roles are reported after a change, because some tensors are created late in the
# first step.
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
    """The number of parameters and states at an optimizer's last step."""

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
            # Gradients of sharded parameters are created in each step, and not by autograd's accumulation.
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
    library.tell_tensors([address for address in addresses if address], role)


def _storage(thing: Any) -> int:
    """The address of the storage of a tensor on a GPU; 0 for all others."""
    with contextlib.suppress(Exception):
        tensor = getattr(thing, "_local_tensor", thing)
        if tensor.is_cuda:
            storage = getattr(tensor, "untyped_storage", None)
            return int(storage().data_ptr() if storage else tensor.data_ptr())
    return 0


def watch(tops: Callable[[], List[Any]]) -> None:
    """Starts reporting. `tops` returns the modules that are part of no other."""
    tensors = _Tensors(tops)
    moments.add(tensors.step_ended, tensors.program_ends)
