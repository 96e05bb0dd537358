"""Decides the values of an operation's results: computed on the CPU, copied, or zeros; known or unknown."""

from __future__ import annotations

import functools
import os
import sys
from contextlib import nullcontext
from typing import Any, Callable, ContextManager, Dict, List, Optional, Tuple

from . import operations as kinds
from .accumulation import Accumulation
from .counted import Counted
from .device_memory import DeviceMemory
from .known import Known
from .on_cpu import OnCpu, Unreadable
from .operations import Rule
from .reads import Reads

MOST = "GPUMEM_PLAN_VALUES_MOST"
_DEFAULT_MOST = 1 << 20
# If all floating-point values of an operation are unknown (as in a network), fewer of them are computed.
_UNKNOWN_SHARE = 64
# Dispatch keys under which an operation has a kernel that consists of other operations.
_KERNELS = ("CUDA", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional", "CompositeImplicitAutograd")
# Multiplications for each element of the limit.
_WORK = 4


class Values:
    """The handlers of operations, which decide the values."""

    def __init__(self, torch: Any):
        self.torch = torch
        self.compute = False
        # A context in which nested operations go through the mode, as the program's own do.
        self.through_mode: Callable[[], ContextManager[None]] = nullcontext
        self.most = _bound()
        self.memory = DeviceMemory(torch)
        self.known = Known(torch)
        self.on_cpu = OnCpu(torch, self.memory)
        self.reads = Reads(torch)
        self.accumulation = Accumulation(torch)
        # Set by the part `weights`.
        self.weights: Any = None
        self._counted = Counted(self)
        self._rules: Dict[Any, Rule] = {}
        self._zeros = torch.zeros
        self._overload = torch._ops.OpOverload
        self._tensor = torch.Tensor
        self._modes = torch._C._len_torch_dispatch_stack
        self._capturing = getattr(torch._C, "_cuda_isCurrentStreamCapturing", lambda: False)
        self._as_they_are = torch._C.DisableTorchFunction
        self._handlers = {
            kinds.EMPTY: self._empty, kinds.ZERO: self._zero, kinds.COPY: self._copy, kinds.READ: self._read, kinds.LIFT: self._lift,
            kinds.COUNTED: self._counted.run, kinds.COMPUTED: self.computed, kinds.SKIPPED: self._skipped, kinds.GROUP: self._group,
            kinds.FOREIGN: self._foreign, kinds.CHECK: self._check,
        }  # fmt: skip

    def calibrate(self) -> None:
        """Calls the mode with a sum of a tensor that only the operation holds."""
        tensor = functools.partial(self.torch.ones, 1, device="cpu")

        def look(func: Any, args: Any, kwargs: Dict[str, Any]) -> Any:
            if func is self.accumulation.of:
                self.accumulation.calibrate(args[0])
            return func(*args, **kwargs)

        self.dispatch = look  # type: ignore[method-assign]
        try:
            self.torch.add(tensor(), tensor())
        finally:
            del self.dispatch

    def dispatch(self, func: Any, args: Any, kwargs: Dict[str, Any]) -> Any:
        rule = self._rules.get(func)
        if rule is None:
            if not isinstance(func, self._overload):
                return func(*args, **kwargs)
            rule = self._rules[func] = Rule(func, self.torch)
        # Under another mode (of the compiler, or of tensors without memory) no operation runs for real.
        if rule.kind == kinds.PASS or self._modes():
            return func(*args, **kwargs)
        if func is self.accumulation.of:
            instead = self.accumulation.in_place(args, kwargs)
            if instead is not None:
                return self.dispatch(instead, args, kwargs)
        tensors = self.tensors(args)
        if kwargs:
            tensors += self.tensors(kwargs.values())
        if not self._is_on_device(tensors, kwargs):
            if self.weights is not None:
                if rule.kind == kinds.COUNTED and not self.known.all(tensors):
                    return self._counted.run(rule, func, args, kwargs, tensors)
                result = self.weights.on_host(rule, func, args, kwargs, tensors)
                if result is not NotImplemented:
                    return result
            if self.known.host_is_known:
                return func(*args, **kwargs)
            return self._on_host(rule, func, args, kwargs, tensors)
        if self._capturing():
            return self._unknown(rule, func, args, kwargs, tensors, zero=False)
        if rule.kind == kinds.FOREIGN:
            return self._foreign(rule, func, args, kwargs, tensors)
        with self._as_they_are():
            return self._handlers[rule.kind](rule, func, args, kwargs, tensors)

    def tensors(self, values: Any) -> List[Any]:
        found = []
        for value in values:
            if isinstance(value, self._tensor):
                found.append(value)
            elif isinstance(value, (list, tuple)):
                found += self.tensors(value)
        return found

    @staticmethod
    def _is_on_device(tensors: List[Any], kwargs: Dict[str, Any]) -> bool:
        for tensor in tensors:
            if tensor.device.type == "cuda":
                return True
        device = kwargs.get("device")
        return device is not None and getattr(device, "type", "") == "cuda"

    def written(self, rule: Rule, args: Any, kwargs: Dict[str, Any]) -> List[Any]:
        """The arguments that the operation writes to."""
        values = [kwargs.get(place) if isinstance(place, str) else args[place] if place < len(args) else None for place in rule.mutated]
        return self.tensors(value for value in values if value is not None)

    def fresh_results(self, result: Any, tensors: List[Any]) -> List[Any]:
        """A result's tensors on the device; `None` for those that share an argument's storage."""
        results = self.tensors((result,))
        if not results:
            return results
        storages = {tensor.untyped_storage()._cdata for tensor in tensors}
        return [
            each if each.device.type == "cuda" and each.layout == self.torch.strided and each.untyped_storage()._cdata not in storages else None
            for each in results
        ]

    # Operations that create no values.

    def _on_host(self, rule: Rule, func: Any, args: Any, kwargs: Dict[str, Any], tensors: List[Any]) -> Any:
        """On the CPU, when unknown values have reached it."""
        known = self.known.all(tensors)
        result = func(*args, **kwargs)
        if rule.kind == kinds.READ:
            return result if known else self.reads.value("item", known, result)
        for tensor in self.written(rule, args, kwargs):
            self.known.written(tensor, known)
        if not known:
            storages = {tensor.untyped_storage()._cdata for tensor in tensors if tensor.layout == self.torch.strided}
            for tensor in self.tensors((result,)):
                if tensor.layout == self.torch.strided and tensor.untyped_storage()._cdata not in storages:
                    self.known.fresh(tensor, False)
        return result

    def _unknown(self, rule: Rule, func: Any, args: Any, kwargs: Dict[str, Any], tensors: List[Any], zero: bool = True) -> Any:
        """Runs an operation without computing values: new memory is zeros, existing memory does not change."""
        result = func(*args, **kwargs)
        self.mark_unknown(rule, args, kwargs, result, tensors, zero)
        return result

    def mark_unknown(self, rule: Rule, args: Any, kwargs: Dict[str, Any], result: Any, tensors: List[Any], zero: bool = True) -> None:
        for tensor in self.written(rule, args, kwargs):
            self.known.written(tensor, False)
        for tensor in self.fresh_results(result, tensors):
            if tensor is not None:
                self.known.fresh(tensor, False)
                if zero:
                    self.memory.zero(tensor)

    def _skipped(self, rule: Rule, func: Any, args: Any, kwargs: Dict[str, Any], tensors: List[Any]) -> Any:
        return self._unknown(rule, func, args, kwargs, tensors)

    def _empty(self, rule: Rule, func: Any, args: Any, kwargs: Dict[str, Any], tensors: List[Any]) -> Any:
        return self._unknown(rule, func, args, kwargs, tensors)

    def _foreign(self, rule: Rule, func: Any, args: Any, kwargs: Dict[str, Any], tensors: List[Any]) -> Any:
        result = self._unknown(rule, func, args, kwargs, tensors)
        if not rule.mutated:
            # The schemas of communication operations do not declare the arguments that they write to.
            for tensor in tensors if func.namespace in ("c10d", "_c10d_functional") else ():
                self.known.written(tensor, False)
        return result

    def _check(self, rule: Rule, func: Any, args: Any, kwargs: Dict[str, Any], tensors: List[Any]) -> Any:
        for flags in tensors:
            if not self.known(flags):
                # With unknown values, a factorization is assumed to succeed.
                self.memory.zero(flags)
        with self.reads.of_a_kernel(0), self.through_mode():
            # PyTorch checks in the same way, but its sum of the flags is in memory that no kernel has written.
            if not args[0].any().item():
                return None
        func(*args, **kwargs)
        raise self.torch.linalg.LinAlgError(f"{args[1]}: the matrix has no such factorization")

    def _within(self, func: Any, args: Any, kwargs: Dict[str, Any]) -> Any:
        """Runs an operation's kernel so that its nested operations go through the mode, too. Their reads are not
        attributed to a line of the program."""
        has_kernel = self.torch._C._dispatch_has_kernel_for_dispatch_key
        key = next((key for key in _KERNELS if has_kernel(func.name(), key)), None)
        if key is None:
            return func(*args, **kwargs)
        with self.reads.of_a_kernel(0), self.through_mode():
            return func._op_dk(getattr(self.torch._C.DispatchKey, key), *args, **kwargs)

    def _lift(self, rule: Rule, func: Any, args: Any, kwargs: Dict[str, Any], tensors: List[Any]) -> Any:
        for tensor in tensors:
            self.known.fresh(tensor, not self.memory.is_left_out(tensor))
        return func(*args, **kwargs)

    def _zero(self, rule: Rule, func: Any, args: Any, kwargs: Dict[str, Any], tensors: List[Any]) -> Any:
        result = func(*args, **kwargs)
        if rule.mutated:
            tensor = args[0]
            zeroed = self.memory.zero(tensor) or self._put(tensor, self._zeros((), dtype=tensor.dtype, device="cpu").expand(tensor.shape))
            self.known.written(tensor, zeroed)
            return result
        for tensor in self.fresh_results(result, tensors):
            if tensor is not None:
                self.known.fresh(tensor, self.memory.zero(tensor))
        return result

    def _put(self, tensor: Any, value: Any) -> bool:
        return tensor.numel() <= self.most and self.memory.write(tensor, value)

    # Operations that move values.

    def _read(self, rule: Rule, func: Any, args: Any, kwargs: Dict[str, Any], tensors: List[Any]) -> Any:
        return self.reads.value("item", self.known(args[0]), func(*args, **kwargs))

    def _copy(self, rule: Rule, func: Any, args: Any, kwargs: Dict[str, Any], tensors: List[Any]) -> Any:
        if self.weights is not None:
            result = self.weights.to_device(rule, func, args, kwargs)
            if result is not NotImplemented:
                return result
        result = func(*args, **kwargs)
        target, source = (args[0], args[1]) if rule.name == "copy_" else (result, args[0])
        strided = self.torch.strided
        if target.layout != strided or source.layout != strided:
            return result
        known = self.known(source) and not (source.device.type == "cpu" and self.memory.is_left_out(target))
        # A plain copy of memory is also done by the simulator. All others use a kernel.
        exact = _same_memory(target, source) or (source.device.type == "cpu" and target.is_contiguous())
        if not exact:
            done = self._copied(target, source)
            known = done and known
            if not done and rule.name != "copy_" and target.device.type == "cuda" and target is not source:
                self.memory.zero(target)
        if target.device.type == "cpu":
            return self._to_host(result, target, known)
        if rule.name == "copy_":
            self.known.written(target, known)
        elif target is not source:
            self.known.fresh(target, known)
        return result

    def _copied(self, target: Any, source: Any) -> bool:
        """Copies what PyTorch would have copied with a kernel."""
        if source.device.type == "cuda" and not self.compute and target.device.type == "cuda":
            return False
        unread = self.weights is not None and not self.known(source)
        if unread or target.device.type == source.device.type:
            if not self.is_worth_it([source], max(target.numel(), source.numel())):
                return False
        try:
            value = source if source.device.type == "cpu" else self.on_cpu.read(source)
        except Unreadable:
            return False
        if target.device.type == "cpu":
            target.copy_(value)
            return True
        converted = self.memory.empty(target.shape, dtype=target.dtype, device="cpu").copy_(value)
        return self.memory.write(target, converted)

    def _to_host(self, result: Any, target: Any, known: bool) -> Any:
        """Records that memory of the device was copied to the host."""
        value = target.item() if target.numel() == 1 else None
        given = self.reads.value("copy to host", known, value)
        if given is not value:
            target.fill_(given)
            known = True
        self.known.written(target, known)
        return result

    # Operations that the CPU supports, too.

    def plain(self, rule: Rule, func: Any, args: Any, kwargs: Dict[str, Any], tensors: List[Any]) -> Any:
        """An operation whose result has a known size: computed for the device; run or left out for the host."""
        if any(tensor.device.type == "cuda" for tensor in tensors):
            return self.computed(rule, func, args, kwargs, tensors)
        result = self.weights.on_host(rule, func, args, kwargs, tensors) if self.weights is not None else NotImplemented
        return result if result is not NotImplemented else self._on_host(rule, func, args, kwargs, tensors)

    def computed(self, rule: Rule, func: Any, args: Any, kwargs: Dict[str, Any], tensors: List[Any]) -> Any:
        known = self.known.all(tensors)
        if not self._is_computed(rule, args, tensors, known):
            return self._unknown(rule, func, args, kwargs, tensors)
        try:
            cpu_args, cpu_kwargs, copies = self.on_cpu.arguments(args, kwargs)
        except Unreadable:
            return self._unknown(rule, func, args, kwargs, tensors)
        # Kernels of factorizations check flags while they run.
        result = self._within(func, args, kwargs) if rule.cubic else func(*args, **kwargs)
        fresh = self.fresh_results(result, tensors)
        written = self.written(rule, args, kwargs)
        done: Optional[Tuple[Any]] = None
        if self._is_small(fresh, written):
            try:
                done = (self.on_cpu.run(rule, func, cpu_args, cpu_kwargs),)
            except Exception as error:
                # The CPU lacks the operation, or rejects the unknown values.
                if isinstance(error, NotImplementedError) or "not implemented" in str(error):
                    rule.refused.add(tensors[0].dtype if tensors else None)
        if done is None:
            self.mark_unknown(rule, args, kwargs, result, tensors)
            return result
        known = known and not rule.random
        for tensor in written:
            copy = copies.get(id(tensor))
            self.known.written(tensor, copy is not None and self.memory.write(tensor, copy) and known)
        for tensor, value in zip(fresh, self.tensors(done)):
            if tensor is not None:
                self.known.fresh(tensor, self.memory.write(tensor, value) and known)
        return result

    def _is_computed(self, rule: Rule, args: Any, tensors: List[Any], known: bool) -> bool:
        if not self.compute or (tensors and tensors[0].dtype in rule.refused) or (rule.unchecked and not known):
            return False
        if rule.work(args) > self.most * _WORK:
            return False
        return self.is_worth_it(tensors, max((tensor.numel() for tensor in tensors), default=0))

    def is_worth_it(self, tensors: List[Any], largest: int) -> bool:
        """Whether arguments are small enough to compute. The limit is lower if all of them are unknown floating-point
        values."""
        if largest * _UNKNOWN_SHARE <= self.most:
            return True
        return largest <= self.most and not all(tensor.is_floating_point() and not self.known(tensor) for tensor in tensors)

    def _is_small(self, fresh: List[Any], written: List[Any]) -> bool:
        return all(t is None or t.numel() <= self.most for t in fresh) and all(t.device.type == "cuda" for t in written)

    def _group(self, rule: Rule, func: Any, args: Any, kwargs: Dict[str, Any], tensors: List[Any]) -> Any:
        if self.compute and sum(tensor.numel() for tensor in tensors) <= self.most and self.known.all(tensors):
            return self.computed(rule, func, args, kwargs, tensors)
        return self._unknown(rule, func, args, kwargs, tensors)


def _same_memory(one: Any, other: Any) -> bool:
    """Whether a copy between the two is a plain copy of memory."""
    if one.dtype != other.dtype or one.shape != other.shape or one.is_conj() != other.is_conj() or one.is_neg() != other.is_neg():
        return False
    if one.is_contiguous() and other.is_contiguous():
        return True
    strides = [(a, b, length) for a, b, length in zip(one.stride(), other.stride(), one.shape) if length > 1]
    block = 1
    for stride, _, length in sorted(strides):
        if stride != block:
            return False
        block *= length
    return all(a == b for a, b, _ in strides)


def _bound() -> int:
    text = os.environ.get(MOST, "")
    if not text:
        return _DEFAULT_MOST
    if text.isdigit():
        return int(text)
    sys.stderr.write(f"gpumem: {MOST}={text} is no number of elements; {_DEFAULT_MOST} is used\n")
    return _DEFAULT_MOST
