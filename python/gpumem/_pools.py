"""What the frameworks that a program has already imported say of their own pools. Nothing is imported here,
and nothing starts CUDA: a framework that is not in use has no cache."""

import gc
import sys
from typing import Any, Optional

from . import _driver

__all__ = ["empty_caches", "tensor_bytes", "tensor_peak", "torch_in_use"]


def torch_in_use() -> Optional[Any]:
    """PyTorch, if this program has imported it and it has started CUDA."""
    torch = sys.modules.get("torch")
    started = getattr(getattr(torch, "cuda", None), "is_initialized", None)
    return torch if started is not None and started() else None


def empty_caches(collect: bool = False) -> None:
    """Gives what the frameworks' pools hold unused back to the card; with `collect`, garbage first."""
    if collect:
        gc.collect()
    torch = torch_in_use()
    if torch is not None:
        torch.cuda.empty_cache()
    cupy = sys.modules.get("cupy")
    if cupy is not None and hasattr(cupy, "get_default_memory_pool"):
        cupy.get_default_memory_pool().free_all_blocks()
    for waiting in _numba_frees():
        waiting.clear()


def _numba_frees() -> list:
    """What numba has yet to free, by context: it frees by and by."""
    devices = sys.modules.get("numba.cuda.cudadrv.devices")
    if devices is None or not _driver.ready():
        return []
    cards = (getattr(gpu, "_device", gpu) for gpu in getattr(devices, "gpus", ()))
    managers = (getattr(getattr(card, "primary_context", None), "memory_manager", None) for card in cards)
    waiting = (getattr(manager, "deallocations", None) for manager in managers)
    return [frees for frees in waiting if frees is not None]


def tensor_bytes(device: int) -> int:
    """Bytes of PyTorch's live tensors on a device, by its own count; 0 without it."""
    torch = torch_in_use()
    return int(torch.cuda.memory_allocated(device)) if torch is not None else 0


def tensor_peak(device: int) -> int:
    """PyTorch's one peak counter, which is read here and never reset."""
    torch = torch_in_use()
    return int(torch.cuda.max_memory_allocated(device)) if torch is not None else 0
