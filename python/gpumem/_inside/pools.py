"""The pools of the frameworks that the program has imported, from their own figures. Nothing is imported
here, and CUDA is never initialised: a framework that is not in use has no cache."""

import gc
import sys
from typing import Any, List, Optional

from .._machine import driver


def torch_in_use() -> Optional[Any]:
    """PyTorch, if this program has imported it and it has initialised CUDA."""
    torch = sys.modules.get("torch")
    started = getattr(getattr(torch, "cuda", None), "is_initialized", None)
    try:
        return torch if started is not None and started() else None
    except Exception:  # a half-imported PyTorch
        return None


def empty_caches(collect: bool = False) -> None:
    """Frees the unused memory of the frameworks' pools; with `collect`, collects garbage first."""
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


def _numba_frees() -> List[Any]:
    """Memory that numba has not freed yet, by context: it frees memory later."""
    devices = sys.modules.get("numba.cuda.cudadrv.devices")
    if devices is None or not driver.ready():
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
    """PyTorch's peak counter, which is read here and never reset."""
    torch = torch_in_use()
    return int(torch.cuda.max_memory_allocated(device)) if torch is not None else 0
