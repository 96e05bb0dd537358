"""`MemReporter`: a model's tensors, and all others, with their sizes."""

import gc
from collections import defaultdict
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ..._inside import meter as _meter
from .._tensors import storage
from ._names import Names
from .utils import readable_size

__all__ = ["MemReporter"]

_WIDTH = 79
# The smallest block of PyTorch's pool.
_BLOCK = 512


class Row(NamedTuple):
    """One tensor: its name, followed by the owner of shared memory in brackets; its size, the count of numbers, and
    the bytes, which are 0 for shared memory."""

    name: str
    size: Tuple[int, ...]
    numbers: int
    bytes: int


class MemReporter:
    """Lists the tensors that Python can access, by device: those of `model` by name, others by type and a number
    that does not change between reports.

    `pre_collect`: collects garbage before each report."""

    def __init__(self, model: Optional[Any] = None, pre_collect: bool = False) -> None:
        import torch

        assert model is None or isinstance(model, torch.nn.Module)
        self.pre_collect = pre_collect
        self.device_mapping: Dict[Any, List[Any]] = defaultdict(list)
        self.device_tensor_stat: Dict[Any, List[Row]] = {}
        self._names = Names()
        # Not the tensors themselves, so that a report keeps none of them alive.
        for name, tensor in _named(model):
            self._names.give(tensor, name)

    def add_optimizer(self, optimizer: Any) -> None:
        """Names the tensors of an optimizer's state: `Adam.weight.exp_avg`."""
        import torch

        for parameter, state in optimizer.state.items():
            owner = f"{type(optimizer).__name__}.{self._names.of(parameter)}"
            for key, value in state.items():
                if isinstance(value, torch.Tensor):
                    self._names.give(value, f"{owner}.{key}")

    def collect_tensor(self) -> None:
        """Finds every tensor, for `get_stats`: named ones first, then the others in the order of the garbage
        collector."""
        import torch

        if self.pre_collect:
            gc.collect()
        found = [thing for thing in gc.get_objects() if issubclass(type(thing), torch.Tensor)]
        for tensor in sorted(found, key=self._names.place):
            try:
                self.device_mapping[tensor.device].append(tensor)
            except Exception:  # a subclass of Tensor that is not one (fake, lazy, half made)
                continue

    def get_stats(self) -> None:
        """Measures the tensors that `collect_tensor` found, and drops the references to them."""
        if not self.device_mapping:
            self.collect_tensor()
        self.device_tensor_stat = {}
        seen: Dict[Tuple[Any, int], str] = {}
        listed = {id(gradient) for tensors in self.device_mapping.values()
                  for gradient in map(_gradient, tensors) if gradient is not None}
        for device, tensors in self.device_mapping.items():
            rows = self.device_tensor_stat[device] = []
            for tensor in tensors:
                gradient = _gradient(tensor)
                if id(tensor) not in listed and _numbers(tensor):
                    rows += _rows(tensor, self._names.of(tensor), seen)
                if gradient is not None:
                    self._names.give(gradient, f"{self._names.of(tensor)}.grad")
                    rows += _rows(gradient, self._names.of(gradient), seen)
        self.device_mapping.clear()
        self._names.prune()

    def print_stats(self, verbose: bool = False, target_device: Optional[Any] = None) -> None:
        """Prints the result of `get_stats`. `verbose`: also the owner of shared memory."""
        print(f"{'Element type':<40}{'Size':>20}{'Used MEM':>10}")
        for device, rows in self.device_tensor_stat.items():
            if target_device is None or str(device) == str(target_device):
                _print(device, rows, verbose)

    def report(self, verbose: bool = False, device: Optional[Any] = None) -> None:
        """Collects and prints: for all devices, or the given one."""
        self.collect_tensor()
        self.get_stats()
        self.print_stats(verbose, device)


def _named(model: Optional[Any]) -> List[Tuple[str, Any]]:
    """A model's parameters and buffers. Those that modules share have the first of their names."""
    return [] if model is None else [*model.named_parameters(), *model.named_buffers()]


def _gradient(tensor: Any) -> Optional[Any]:
    """A leaf's gradient; PyTorch warns if other tensors' gradients are read."""
    try:
        return tensor.grad if tensor.is_leaf else None
    except Exception:  # as above
        return None


def _numbers(tensor: Any) -> int:
    try:
        return int(tensor.numel())
    except Exception:  # as above
        return 0


def _rows(tensor: Any, name: str, seen: Dict[Tuple[Any, int], str]) -> List[Row]:
    """A tensor's row; for a sparse one, the rows of its indices and its values."""
    import torch

    try:
        if tensor.layout is torch.sparse_coo:
            return [
                *_rows(tensor._indices(), f"{name}.indices", seen), *_rows(tensor._values(), f"{name}.values", seen)
            ]
        address, held = storage(tensor)
    except Exception:  # no memory (other sparse layouts, functional wrappers)
        return []
    first = seen.setdefault((tensor.device, address), name) if held and address else name
    size, numbers = tuple(tensor.size()) or (1,), tensor.numel()
    if first != name:
        return [Row(f"{name}(->{first})", size, numbers, 0)]
    return [Row(name, size, numbers, -(-held // _BLOCK) * _BLOCK)]


def _print(device: Any, rows: List[Row], verbose: bool) -> None:
    print("-" * _WIDTH)
    print(f"Storage on {device}")
    for row in rows:
        name = row.name if verbose else row.name.partition("(")[0]
        print(f"{name:<40}{str(row.size):>20}{readable_size(row.bytes):>10}")
    print("-" * _WIDTH)
    used = sum(row.bytes for row in rows)
    print(f"Total Tensors: {sum(row.numbers for row in rows)} \tUsed Memory: {readable_size(used)}")
    if device.type == "cuda":
        allocated = _meter.used(device.index, _meter.TENSOR)
        print(f"The allocated memory on {device}: {readable_size(allocated)}")
        if allocated != used:
            print("Memory differs due to the matrix alignment or invisible gradient buffer tensors")
    print("-" * _WIDTH)
