"""Runs an operation on the CPU: with copies of its arguments, and random numbers from a separate generator."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from .device_memory import DeviceMemory
from .operations import Rule


class Unreadable(Exception):
    """An argument cannot be copied to the CPU."""


class OnCpu:
    """Runs operations on copies of their arguments."""

    def __init__(self, torch: Any, memory: DeviceMemory):
        self._torch = torch
        self._tensor = torch.Tensor
        self._device = torch.device
        self._generators = torch.Generator
        self._cpu = torch.device("cpu")
        self._memory = memory
        # The state of the program's generator must not change.
        self._generator = torch.Generator(device="cpu")
        self._generator.manual_seed(0)

    def arguments(self, args: Any, kwargs: Dict[str, Any]) -> Tuple[List[Any], Dict[str, Any], Dict[int, Any]]:
        """Copies of the arguments, and the copy of each tensor by its id."""
        copies: Dict[int, Any] = {}
        converted = [self._convert(value, copies) for value in args]
        named = {name: self._convert(value, copies) for name, value in kwargs.items() if name != "pin_memory"}
        return converted, named, copies

    def _convert(self, value: Any, copies: Dict[int, Any]) -> Any:
        if isinstance(value, self._tensor):
            if value.device.type == "cpu":
                return value
            copy = copies.get(id(value))
            if copy is None:
                copy = copies[id(value)] = self.read(value)
            return copy
        if isinstance(value, (list, tuple)):
            return type(value)(self._convert(item, copies) for item in value) if type(value) in (list, tuple) else value
        if isinstance(value, self._device):
            return self._cpu
        if isinstance(value, self._generators):
            return self._generator
        return value

    def read(self, tensor: Any) -> Any:
        """The values of a device tensor; a host tensor is returned unchanged."""
        if tensor.device.type == "cpu":
            return tensor
        if tensor.layout != self._torch.strided or tensor.device.type != "cuda":
            raise Unreadable(tensor.layout)
        value = self._memory.read(tensor)
        if value is None:
            raise Unreadable(tensor.shape)
        if tensor.is_conj():
            value = self._torch.conj_physical(value)
        return value.neg() if tensor.is_neg() else value

    def run(self, rule: Rule, func: Any, args: List[Any], kwargs: Dict[str, Any]) -> Any:
        if rule.random:
            if rule.name in ("native_dropout", "_fused_dropout"):
                return self._dropout(rule, *args)
            kwargs = {**kwargs, "generator": self._generator}
            func = rule.replaced or func
        return func(*args, **kwargs)

    def _dropout(self, rule: Rule, value: Any, p: float, train: Optional[bool] = None) -> Any:
        # `_fused_dropout` takes the probability to keep, `native_dropout` the probability to drop.
        keep = p if rule.name == "_fused_dropout" else 1.0 - p
        if rule.name == "native_dropout" and train is False:
            return value.clone(), self._torch.ones_like(value, dtype=self._torch.bool)
        mask = self._memory.empty(value.shape, device="cpu").bernoulli_(keep, generator=self._generator)
        result = value * mask * (1.0 / keep if keep else 0.0)
        return result.to(value.dtype), mask.to(self._torch.uint8 if rule.name == "_fused_dropout" else self._torch.bool)
