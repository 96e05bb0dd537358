"""`MemReporter`: the tensors of a model, and all others, with their sizes."""

import gc
from typing import Any, Dict, List, Optional, Tuple

from ... import _meter
from .._tensors import storage
from ._table import readable

__all__ = ["MemReporter"]

_WIDTH = 79


class MemReporter:
    """Lists the tensors that Python can see by device; those of `model` by their names."""

    def __init__(self, model: Optional[Any] = None) -> None:
        self.device_tensor_stat: Dict[Any, List[Tuple[str, Tuple[int, ...], int, int]]] = {}
        self._model = model

    def _names(self) -> Dict[int, str]:
        names = {}
        if self._model is not None:
            for name, parameter in self._model.named_parameters():
                names[id(parameter)] = name
            for name, buffer in self._model.named_buffers():
                names[id(buffer)] = name
        return names

    def collect_tensor(self) -> List[Any]:
        """Every tensor, those of the model first and the others in the order in which they were made."""
        import torch

        found = [thing for thing in gc.get_objects() if issubclass(type(thing), torch.Tensor)]
        names = self._names()
        order = {key: place for place, key in enumerate(names)}
        return sorted(found, key=lambda tensor: order.get(id(tensor), len(order)))

    def get_stats(self) -> None:
        """Looks at all tensors: name, size, numbers, and bytes. What shares memory with one before counts 0."""
        names = self._names()
        self.device_tensor_stat = {}
        seen: Dict[Tuple[Any, int], str] = {}
        unnamed = 0
        tensors = self.collect_tensor()
        gradients = [tensor.grad for tensor in tensors if id(tensor) in names]
        told = {id(gradient) for gradient in gradients}
        for tensor in tensors:
            name = names.get(id(tensor))
            if name is None:
                if id(tensor) in told:
                    continue
                name, unnamed = f"Tensor{unnamed}", unnamed + 1
            self._add(tensor, name, seen)
            if id(tensor) in names and tensor.grad is not None:
                self._add(tensor.grad, f"{name}.grad", seen)

    def _add(self, tensor: Any, name: str, seen: Dict[Tuple[Any, int], str]) -> None:
        try:
            address, size = storage(tensor)
        except Exception:  # no memory of its own (sparse, meta)
            return
        first = seen.setdefault((tensor.device, address), name) if size else name
        if first != name:
            name, size = f"{name}(->{first})", 0
        elif tensor.is_cuda:
            size = -(-size // 512) * 512
        row = (name, tuple(tensor.size()), tensor.numel() if first == name else 0, size)
        self.device_tensor_stat.setdefault(tensor.device, []).append(row)

    def print_stats(self, verbose: bool = False, target_device: Optional[Any] = None) -> None:
        """Prints what `get_stats` found. `verbose`: also what shares another's memory."""
        print(f"{'Element type':<40}{'Size':>20}{'Used MEM':>10}")
        for device, rows in self.device_tensor_stat.items():
            if target_device is not None and str(device) != str(target_device):
                continue
            print("-" * _WIDTH)
            print(f"Storage on {device}")
            for name, size, _, used in rows:
                if used or verbose or "->" in name:
                    print(f"{name:<40}{str(size):>20}{readable(used):>10}")
            print("-" * _WIDTH)
            numbers, used = sum(row[2] for row in rows), sum(row[3] for row in rows)
            print(f"Total Tensors: {numbers} \tUsed Memory: {readable(used)}")
            if device.type == "cuda":
                allocated = _meter.used(device.index, _meter.TENSOR)
                print(f"The allocated memory on {device}: {readable(allocated)}")
                if allocated > used:
                    print(f"Held where Python sees no tensor, or rounded up: {readable(allocated - used)}")
            print("-" * _WIDTH)

    def report(self, verbose: bool = False, device: Optional[Any] = None) -> None:
        """Looks, and prints."""
        self.get_stats()
        self.print_stats(verbose, device)
