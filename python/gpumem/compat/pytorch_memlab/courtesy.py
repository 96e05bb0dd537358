"""`Courtesy`: releases the card for a while."""

import gc
from typing import Any, Dict, List, Tuple

from ..._inside import pools as _pools
from .._tensors import storage

__all__ = ["Courtesy"]


class Courtesy:
    """`yield_memory()` moves all PyTorch tensors from the cards to RAM and frees the cards' memory;
    `restore()` moves each to the card that it came from. As a context manager it does both, around the block.

    Tensors that share memory keep sharing it; each memory is moved once."""

    def __init__(self) -> None:
        self._away: List[Tuple[Any, Any]] = []

    def yield_memory(self) -> None:
        import torch

        found: Dict[int, Any] = {}
        for thing in gc.get_objects():
            if not issubclass(type(thing), torch.Tensor):
                continue
            try:
                both = (thing, thing.grad if thing.is_leaf else None)
                found.update((id(tensor), tensor) for tensor in both if tensor is not None and tensor.is_cuda)
            except Exception:  # a subclass of Tensor that is not one (fake, lazy, half made)
                continue
        self._away += [(tensor, tensor.device) for tensor in found.values()]
        _move([(tensor, "cpu") for tensor in found.values()])
        found.clear()
        _pools.empty_caches(collect=True)

    def restore(self) -> None:
        away, self._away = self._away, []
        _move(away)

    def __enter__(self) -> "Courtesy":
        self.yield_memory()
        return self

    def __exit__(self, *_: object) -> None:
        self.restore()


def _move(tensors: List[Tuple[Any, Any]]) -> None:
    """Moves each tensor's whole memory once, and points the tensor to the same offset in it."""
    moved: Dict[int, Any] = {}
    for tensor, device in tensors:
        try:
            address, _ = storage(tensor)
        except Exception:  # no memory (sparse): moved by itself
            tensor.data = tensor.data.to(device)
            continue
        whole = moved.get(address)
        if whole is None:
            # PyTorch before 2.0 expects the typed storage here.
            memory = getattr(tensor, "untyped_storage", tensor.storage)()
            numbers = storage(tensor)[1] // tensor.element_size()
            flat = tensor.data.new_empty(0).set_(memory, 0, (numbers,), (1,))
            whole = moved[address] = flat.to(device)
        place = tensor.size(), tensor.stride(), tensor.storage_offset()
        tensor.data = whole.view(tensor.dtype).as_strided(*place)
