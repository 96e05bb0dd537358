"""Operations whose result size was counted by the device, and some that read device memory while they run.

Their kernels read a count that no kernel has written. So they run with the count of the computed values, for any size.
Operations on host tensors come here, too, if values are unknown without the device's work (--no-weights)."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from .on_cpu import Unreadable
from .operations import Rule


class Counted:
    """The handlers, by operation."""

    def __init__(self, values: Any):
        self._values = values
        self._torch, self._empty = values.torch, values.memory.empty
        index = self._index
        self._handlers = {
            "nonzero": self._nonzero, "masked_select": self._masked_select, "index": index, "index_put": index, "index_put_": index,
            "_index_put_impl_": index, "_unsafe_index": index, "_unsafe_index_put": index, "repeat_interleave": self._repeat_interleave,
            "equal": self._equal, "nms": self._nms, "histc": self._instead,
        }  # fmt: skip

    def run(self, rule: Rule, func: Any, args: Any, kwargs: Dict[str, Any], tensors: List[Any]) -> Any:
        handler = self._handlers.get(rule.name)
        if rule.name.startswith(("_to_sparse", "_coalesce")):
            # The kernel counts internally, so the count cannot be replaced.
            on_device = any(tensor.device.type == "cuda" for tensor in tensors)
            self._values.reads.size(f"{rule.name} (as counted by a kernel that did nothing)" if on_device else rule.name, False, None)
            return func(*args, **kwargs) if on_device else self._values.plain(rule, func, args, kwargs, tensors)
        if rule.mutated and "out" in rule.mutated:
            return self._into(rule, func, args, kwargs)
        return (handler or self._instead)(rule, func, args, kwargs, tensors)

    def _into(self, rule: Rule, func: Any, args: Any, kwargs: Dict[str, Any]) -> Any:
        """The variant that writes to the caller's tensor: runs the other variant and copies."""
        named = dict(kwargs)
        out = named.pop("out")
        plain = func.overloadpacket.default
        result = self.run(Rule(plain, self._torch), plain, args, named, self._values.tensors(args))
        out.resize_(result.shape).copy_(result)
        self._values.known.written(out, self._values.known(result))
        return out

    def _counted_rows(self, mask: Any, operation: str) -> Tuple[Any, Any]:
        """The positions of the mask's elements, on the device in nonzero's format and on the CPU."""
        known = self._values.known(mask)
        try:
            rows = self._values.on_cpu.read(mask).nonzero()
        except Unreadable:
            rows, known = self._empty((0, mask.dim()), dtype=self._torch.int64, device="cpu"), False
        count = self._values.reads.size(operation, known, rows.shape[0])
        rows, known = _with_length(rows, count), known and count == rows.shape[0]
        # In the layout of the device's kernel.
        result = self._empty((mask.dim(), count), dtype=self._torch.int64, device=mask.device).t()
        self._values.known.fresh(result, self._values.memory.write(result, rows) and known)
        return result, rows

    def _nonzero(self, rule: Rule, func: Any, args: Any, kwargs: Dict[str, Any], tensors: List[Any]) -> Any:
        return self._counted_rows(args[0], "nonzero")[0]

    def _masked_select(self, rule: Rule, func: Any, args: Any, kwargs: Dict[str, Any], tensors: List[Any]) -> Any:
        value, mask = self._torch.broadcast_tensors(args[0], args[1])
        rows, _ = self._counted_rows(mask, "masked_select")
        columns = [rows.select(1, at) for at in range(mask.dim())]
        if not columns:
            # A single element: the result has it or is empty.
            value, columns = value.reshape(1), [self._empty(rows.shape[0], dtype=self._torch.int64, device=value.device)]
            self._values.memory.zero(columns[0])
            self._values.known.fresh(columns[0], self._values.known(rows))
        return self._by_rule(self._torch.ops.aten.index.Tensor, (value, columns), {})

    def _index(self, rule: Rule, func: Any, args: Any, kwargs: Dict[str, Any], tensors: List[Any]) -> Any:
        """An index by a mask is an index by the mask's positions, as in PyTorch."""
        indices: List[Any] = []
        masked = False
        for index in args[1]:
            mask = index is not None and index.device == args[0].device and index.dtype in (self._torch.bool, self._torch.uint8)
            if mask and index.dim():
                if _fills(rule, args, kwargs):
                    break
                rows, _ = self._counted_rows(index, "boolean index")
                indices += [rows.select(1, at) for at in range(index.dim())]
                masked = True
            else:
                indices.append(index)
        if masked:
            args = (args[0], indices, *args[2:])
            tensors = self._values.tensors(args)
        return self._values.plain(rule, func, args, kwargs, tensors)

    def _by_rule(self, func: Any, args: Any, kwargs: Dict[str, Any]) -> Any:
        return self._values.plain(Rule(func, self._torch), func, args, kwargs, self._values.tensors(args))

    def _repeat_interleave(self, rule: Rule, func: Any, args: Any, kwargs: Dict[str, Any], tensors: List[Any]) -> Any:
        if kwargs.get("output_size") is None:
            known = self._values.known(args[0])
            try:
                total = int(self._values.on_cpu.read(args[0]).sum())
            except Unreadable:
                total, known = 0, False
            count = self._values.reads.size("repeat_interleave", known, total)
            if args[0].device.type == "cpu":
                # The CPU accepts only the size that it counts.
                return self._moved(_with_length(func(*args, **kwargs), count), args[0].device, known and count == total)
            kwargs = {**kwargs, "output_size": count}
        return self._values.computed(rule, func, args, kwargs, tensors)

    def _equal(self, rule: Rule, func: Any, args: Any, kwargs: Dict[str, Any], tensors: List[Any]) -> bool:
        known = self._values.known.all(tensors)
        try:
            one, other = (self._values.on_cpu.read(each) for each in args)
            result = self._torch.equal(one, other)
        except Unreadable:
            result, known = False, False
        return bool(self._values.reads.value("equal", known, result))

    def _nms(self, rule: Rule, func: Any, args: Any, kwargs: Dict[str, Any], tensors: List[Any]) -> Any:
        """The kernel allocates memory itself. It consists of PyTorch operations, one of which counts: they go through
        the mode, too."""
        values = self._values
        known = values.known.all(tensors)
        kept = self._on_cpu(func, args, kwargs)
        count = values.reads.size("nms", known, kept.shape[0])
        known, kept = known and count == kept.shape[0], _with_length(kept, count)
        if args[0].device.type == "cpu":
            return self._moved(kept, args[0].device, known)
        with values.reads.of_a_kernel(count), values.through_mode():
            result = func._op_dk(self._torch._C.DispatchKey.CUDA, *args, **kwargs)
        if result.shape != kept.shape:
            # It has counted on the host.
            return self._moved(kept, result.device, known)
        values.known.fresh(result, values.memory.write(result, kept) and known)
        return result

    def _on_cpu(self, func: Any, args: Any, kwargs: Dict[str, Any]) -> Any:
        cpu_args, cpu_kwargs, _ = self._values.on_cpu.arguments(args, kwargs)
        try:
            return func(*cpu_args, **cpu_kwargs)
        except RuntimeError as error:
            if "not implemented" not in str(error):
                raise
            half = (self._torch.float16, self._torch.bfloat16)
            cpu_args = [each.float() if getattr(each, "dtype", None) in half else each for each in cpu_args]
            return func(*cpu_args, **cpu_kwargs)

    def _instead(self, rule: Rule, func: Any, args: Any, kwargs: Dict[str, Any], tensors: List[Any]) -> Any:
        """Computes only on the CPU, and copies the results to the device."""
        values = self._values
        known = values.known.all(tensors)
        result = self._on_cpu(func, args, kwargs)
        results = values.tensors((result,))
        if rule.name != "histc":
            name = rule.name.lstrip("_").rstrip("2")
            dim = args[1] % max(1, args[0].dim()) if rule.name.startswith("unique_dim") else 0
            length = results[0].shape[dim]
            count = values.reads.size(name, known, length)
            if count != length:
                known = False
                results = [_with_length(each, count, dim if at == 0 else 0) if _counts(each, length, at, dim) else each
                           for at, each in enumerate(results)]  # fmt: skip
        device = next((tensor.device for tensor in tensors if tensor.device.type == "cuda"), tensors[0].device)
        moved = [self._moved(each, device, known) for each in results]
        return moved[0] if not isinstance(result, (tuple, list)) else tuple(moved)

    def _moved(self, value: Any, device: Any, known: bool) -> Any:
        result = self._empty(value.shape, dtype=value.dtype, device=device)
        self._values.known.fresh(result, self._values.memory.write(result, value) and known)
        return result


def _counts(result: Any, length: int, at: int, dim: int) -> bool:
    """Whether a result of `unique` or a similar operation has the counted length; the second result has the argument's
    length."""
    if at == 0:
        return True
    return at == 2 and result.dim() == 1 and result.shape[0] == length


def _fills(rule: Rule, args: Any, kwargs: Dict[str, Any]) -> bool:
    """Whether PyTorch handles an index without counting: one number is assigned where one mask is set."""
    if "put" not in rule.name or len(args) < 3:
        return False
    value: Optional[Any] = args[2]
    accumulate = args[3] if len(args) > 3 else kwargs.get("accumulate", False)
    masks = [index for index in args[1] if index is not None]
    return not accumulate and len(masks) == 1 and value is not None and value.numel() == 1 and value.device.type == "cpu"


def _with_length(value: Any, count: int, dim: int = 0) -> Any:
    """The first `count` rows, padded with zeros."""
    length = value.shape[dim]
    if count <= length:
        return value.narrow(dim, 0, count)
    shape = list(value.shape)
    shape[dim] = count
    longer = value.new_zeros(shape)
    longer.narrow(dim, 0, length).copy_(value)
    return longer
