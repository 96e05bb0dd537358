"""The part `weights`: operations that fill large host tensors are left out, so their memory stays untouched and a
model may be larger than this machine's memory.

| what the program does | what happens |
|---|---|
| draws random numbers for a large tensor on the host | the tensor does not change |
| loads a file of `torch.save` or safetensors | the pickle or header and small storages are read; for others only the size |
| computes with large unknown values | the result has its shape and type, and no values |
| copies them to the device | the device's memory is allocated, and stays zeros |
| loads a transformers model whose weights are not on this machine | its shapes are those of its configuration (pretrained.py) |

These values are unknown afterwards."""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import Any, Dict, List, Optional, Tuple

from . import mode, operations, pretrained, python_reads
from .record_file import RecordFile

FILE = "GPUMEM_PLAN_LINES"
# Storages of files up to this size are read: steps of optimizers, states of generators.
READ_BYTES = 64 << 10
# Larger storages are fresh memory, which is zeros: the C library reuses smaller ones.
_USED_AGAIN = 64 << 20
# Zeros are searched for in chunks of this size.
_PIECE = 64 << 10
_ZEROS = bytes(_PIECE)
_memcmp = ctypes.CDLL(None).memcmp
_memcmp.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]


def install(torch: Any) -> None:
    """Makes the mode leave values out."""
    installed = mode.ensure(torch)
    if installed is not None:
        weights = Weights(torch, installed.values)
        installed.values.weights = weights
        _watch_files(torch, weights)
        python_reads.watch(torch, installed.values, mode.hider(torch))
        pretrained.watch(torch, weights.report)


class Report:
    """The bytes that were left out: a record in the plan's file."""

    def __init__(self, path: Optional[str]):
        self._file = RecordFile(path) if path else None
        self.counts: Dict[str, int] = {}
        self._mapped: Dict[str, int] = {}
        self._forked()
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        self.counts = {"not_read": 0, "not_drawn": 0, "not_there": 0}
        self._mapped.clear()

    def add(self, what: str, count: int) -> None:
        self.counts[what] += count
        if self._file is not None:
            self._file.put("weights", {"kind": "weights", "pid": os.getpid()}, self.counts)

    def made_up(self, path: str, size: int) -> None:
        """Counts a file without contents."""
        self._mapped[path] = size
        self.add("not_there", size)

    def file(self, path: str, size: int) -> None:
        """Counts a file that is mapped and not read, the first time."""
        if path not in self._mapped:
            self._mapped[path] = size
            self.add("not_read", size)


class Weights:
    """Handles operations on large host values."""

    def __init__(self, torch: Any, values: Any):
        self._torch = torch
        self._values = values
        self._known = values.known
        self.report = Report(os.environ.get(FILE))
        self._scratch: Any = None

    # Operations on the host.

    def on_host(self, rule: Any, func: Any, args: Any, kwargs: Dict[str, Any], tensors: List[Any]) -> Any:
        """The result of an operation that is left out; `NotImplemented` if it must run."""
        device = kwargs.get("device")
        if (device is not None and device.type != "cpu") or not all(map(self._is_plain, tensors)):
            return NotImplemented
        if rule.kind == operations.PASS:
            return self._pinned(args[0]) if rule.name in ("_pin_memory", "pin_memory") and self.is_left_out(args[0]) else NotImplemented
        if rule.kind == operations.ZERO:
            return self._zeros(rule, func, args, kwargs, tensors)
        if rule.kind == operations.READ and args[0].dtype == self._torch.uint8 and self._known.is_mapped(args[0]):
            # A library reads a file's first byte, which is not a value of a weight.
            return func(*args, **kwargs)
        if rule.kind in (operations.READ, operations.EMPTY, operations.LIFT):
            return NotImplemented
        if rule.random:
            return self._not_drawn(rule, func, args, kwargs, tensors)
        if not tensors or self._known.all(tensors) or self._values.is_worth_it(tensors, max(tensor.numel() for tensor in tensors)):
            return NotImplemented
        return self._without_values(rule, func, args, kwargs)

    def _is_plain(self, tensor: Any) -> bool:
        return bool(tensor.device.type == "cpu" and tensor.layout == self._torch.strided)

    def is_left_out(self, tensor: Any) -> bool:
        """Whether a host tensor with unknown values is too large to move them."""
        return not self._known(tensor) and not self._values.is_worth_it([tensor], tensor.numel())

    def _not_drawn(self, rule: Any, func: Any, args: Any, kwargs: Dict[str, Any], tensors: List[Any]) -> Any:
        made = self._values.written(rule, args, kwargs)
        sizes = [tensor.numel() for tensor in made or tensors] or [_product(value) for value in (*args, *kwargs.values())]
        if max(sizes, default=0) <= self._values.most or not all(tensor.is_floating_point() for tensor in made):
            return NotImplemented
        shapes = self._shapes(func, args, kwargs)
        # Integers and masks are data, and are drawn.
        if shapes is None or not all(tensor.is_floating_point() for tensor in self._values.tensors((shapes[0],))):
            return NotImplemented
        # Tensors that were already left out have been counted.
        counted = [each for each in made if self._known(each)]
        result = self._made(rule, args, kwargs, shapes)
        counted = counted if made else self._values.tensors((result,))
        self.report.add("not_drawn", sum(each.numel() * each.element_size() for each in counted))
        return result

    def _without_values(self, rule: Any, func: Any, args: Any, kwargs: Dict[str, Any]) -> Any:
        shapes = self._shapes(func, args, kwargs)
        return NotImplemented if shapes is None else self._made(rule, args, kwargs, shapes)

    def _shapes(self, func: Any, args: Any, kwargs: Dict[str, Any]) -> Optional[Tuple[Any, Dict[int, Any]]]:
        """The operation's result as tensors without memory, and those tensors for the arguments. `None`: the
        operation itself must run, which reports errors."""
        metas: Dict[int, Any] = {}
        named = {name: self._meta(value, metas) for name, value in kwargs.items() if name not in ("device", "pin_memory", "generator")}
        arguments = [self._meta(value, metas) for value in args]
        if "device" in kwargs or not metas:
            named["device"] = self._torch.device("meta")
        try:
            result = func(*arguments, **named)
        except (NotImplementedError, RuntimeError, TypeError):
            return None
        if not all(each.layout == self._torch.strided for each in self._values.tensors((result,))):
            return None
        if any(meta.shape != value.shape or meta.stride() != value.stride() for value, meta in metas.values()):
            return None
        return result, metas

    def _made(self, rule: Any, args: Any, kwargs: Dict[str, Any], shapes: Tuple[Any, Dict[int, Any]]) -> Any:
        """The result with memory, without values."""
        result, metas = shapes
        for tensor in self._values.written(rule, args, kwargs):
            self._known.written(tensor, False)
        return self._host(result, {id(meta): value for value, meta in metas.values()})

    def _meta(self, value: Any, metas: Dict[int, Any]) -> Any:
        """An argument without memory; `metas` has both tensors of each."""
        if isinstance(value, self._torch.Tensor):
            if id(value) not in metas:
                made = self._torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
                metas[id(value)] = value, made
            return metas[id(value)][1]
        return [self._meta(each, metas) for each in value] if isinstance(value, (list, tuple)) else value

    def _host(self, value: Any, originals: Dict[int, Any]) -> Any:
        """A result with memory: an argument's memory, or new memory."""
        if isinstance(value, self._torch.Tensor):
            return originals[id(value)] if id(value) in originals else self.fresh(value)
        return type(value)(self._host(each, originals) for each in value) if type(value) in (list, tuple) else value

    def fresh(self, like: Any) -> Any:
        """Memory of zeros with unknown values, of a shape and type."""
        made = self._torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device="cpu")
        storage = made.untyped_storage()
        if storage.nbytes() <= _USED_AGAIN:
            self._zero(storage.data_ptr(), storage.nbytes())
        self._known.fresh(made, False)
        return made

    def _pinned(self, source: Any) -> Any:
        made = self._torch.empty_strided(source.shape, source.stride(), dtype=source.dtype, device="cpu", pin_memory=True)
        self._known.fresh(made, False)
        return made

    def _zeros(self, rule: Any, func: Any, args: Any, kwargs: Dict[str, Any], tensors: List[Any]) -> Any:
        """Zeros, without touching memory that is fresh."""
        size = tensors[0].numel() if rule.mutated or rule.name == "zeros_like" else max(map(_product, (*args, *kwargs.values())))
        if size <= self._values.most or kwargs.get("pin_memory") or kwargs.get("layout") not in (None, self._torch.strided):
            return NotImplemented
        if rule.mutated and not tensors[0].is_contiguous():
            return NotImplemented
        made = tensors[0] if rule.mutated else self._without_values(rule, func, args, kwargs)
        if made is not NotImplemented:
            self._zero(made.data_ptr(), made.numel() * made.element_size())
            self._known.written(made, True)
        return made

    @staticmethod
    def _zero(at: int, length: int) -> None:
        """Writes zeros over other values. Reading fresh memory does not allocate it."""
        end = at + length
        while at < end:
            size = min(_PIECE, end - at)
            if _memcmp(at, _ZEROS, size):
                ctypes.memset(at, 0, size)
            at += size

    # Copies to the device.

    def to_device(self, rule: Any, func: Any, args: Any, kwargs: Dict[str, Any]) -> Any:
        """A copy of unknown values: the device's memory is allocated as usual, and zeros are copied.
        `NotImplemented` for any other copy."""
        source = args[1] if rule.name == "copy_" else args[0]
        device = args[0].device if rule.name == "copy_" else kwargs.get("device")
        if not self._is_plain(source) or device is None or device.type != "cuda" or not self.is_left_out(source):
            return NotImplemented
        if rule.name == "copy_":
            target = args[0]
            if target.layout != self._torch.strided:
                return NotImplemented
        else:
            form = kwargs.get("memory_format") or self._torch.preserve_format
            target = self._torch.empty_like(source, dtype=kwargs.get("dtype") or source.dtype, device=device, memory_format=form)
        rest = args[2:] if rule.name == "copy_" else (bool(kwargs.get("non_blocking", False)),)
        target.copy_(self._source(target, source), *rest)
        self._known.written(target, False)
        return target

    def _source(self, target: Any, source: Any) -> Any:
        """Untouched memory that is copied in the same way as the source: contiguous, or through device memory.
        Conversions that PyTorch does on the host are already done."""
        same = source.dtype == target.dtype and source.shape == target.shape and source.stride() == target.stride()
        shape, stride = target.shape, target.stride()
        if not same:
            stride = self._torch.empty(shape, device="meta").stride()
        size = (1 + sum((length - 1) * step for length, step in zip(shape, stride))) * target.element_size() if target.numel() else 0
        if self._scratch is None or self._scratch.nbytes() < size:
            self._scratch = self._torch.frombuffer(_reserved(max(size, mmap.PAGESIZE)), dtype=self._torch.uint8).untyped_storage()
        return self._torch.empty(0, dtype=target.dtype, device="cpu").set_(self._scratch, 0, shape, stride)


def _reserved(size: int, descriptor: int = -1) -> Any:
    """Address space whose pages are allocated when they are touched."""
    flags = mmap.MAP_PRIVATE | (mmap.MAP_ANONYMOUS if descriptor < 0 else 0) | _NORESERVE
    return mmap.mmap(descriptor, size, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE)


_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)


def _product(shape: Any) -> int:
    """The number of elements that a size argument defines; 0 for other arguments."""
    if not isinstance(shape, (list, tuple)) or not all(isinstance(length, int) for length in shape):
        return 0
    count = 1
    for length in shape:
        count *= length
    return count


def _watch_files(torch: Any, weights: Weights) -> None:
    """Treats storages of files as unread: those that are mapped (safetensors, `mmap=True`), and those of other
    `torch.save` files."""
    storage, known, report = torch.UntypedStorage, weights._known, weights.report
    from_file = storage.from_file

    def mapped(filename: Any, shared: bool = False, nbytes: int = 0) -> Any:
        try:
            made = from_file(filename, shared, nbytes)
        except RuntimeError:
            # Linux refuses memory that could all be written and exceeds the machine's.
            if shared or not nbytes:
                raise
            with open(filename, "rb") as file:
                made = torch.frombuffer(_reserved(nbytes, file.fileno()), dtype=torch.uint8).untyped_storage()
        if not shared:
            known.mapped(made, READ_BYTES)
            report.file(os.path.abspath(os.fspath(filename)), made.nbytes())
        return made

    storage.from_file = staticmethod(mapped)
    reader = torch._C.PyTorchFileReader
    read = reader.get_storage_from_record

    def get_storage_from_record(self: Any, name: str, count: int, kind: Any) -> Any:
        if count <= READ_BYTES or kind is not storage:
            return read(self, name, count, kind)
        made = weights.fresh(torch.empty(count, dtype=torch.uint8, device="meta"))
        report.add("not_read", count)
        return made

    reader.get_storage_from_record = get_storage_from_record
