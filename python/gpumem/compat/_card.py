"""A card's memory in MB, and memory that is held on purpose, for fastai and ipyexperiments."""

import sys
from typing import Any, Optional

from .._inside import meter as _meter, pools as _pools
from .._machine import devices as _devices, driver as _driver
from ._trace import b2mb

__all__ = ["allocate_mbs", "free_bytes", "leave_free_mbs", "preload"]

# PyTorch's pool gives tensors from this size on separate memory.
_POOL_MBS = 10


def preload(device: Optional[int] = None) -> Optional[Any]:
    """Initialises CUDA (context, first kernels), so that later figures do not include its cost: with PyTorch if it is
    imported, else with the driver's primary context, which all frameworks share."""
    if _devices.find(device) is None:
        return None
    ordinal = _devices.current() if device is None else device
    try:
        import torch
    except ImportError:
        _driver.retain_context(ordinal)
        return None
    return torch.ones((1, 1), device=f"cuda:{ordinal}") if torch.cuda.is_available() else None


def free_bytes(device: Optional[int] = None) -> int:
    """Free bytes of a device: the card's, or those below a limit (GPUMEM_LIMIT) if they are fewer."""
    ordinal = _devices.current() if device is None else device
    free = _meter.card_memory(ordinal).free
    told = _driver.free_and_total(ordinal)
    return free if told is None else min(free, told[0])


def allocate_mbs(n: int, fatal: bool = False) -> Optional[Any]:
    """Holds `n` MB on the current device: a tensor of floats if PyTorch is in use, else memory of the driver. Returns
    None if there is too little memory, or raises the error if `fatal`."""
    try:
        torch = sys.modules.get("torch")
        if torch is None or not torch.cuda.is_available():
            return _driver.Allocation(n * 2**20, _devices.current())
        if 0 < n < _POOL_MBS:
            # For smaller sizes PyTorch's pool would take 20 MB of the card, so this tensor uses memory of the driver.
            torch.empty(0, device="cuda")
            held = torch.as_tensor(_driver.Allocation(n * 2**20, _devices.current()), device="cuda")
            return held.view(torch.float32)
        return torch.empty(n * 2**18, dtype=torch.float32, device="cuda")
    except RuntimeError:  # PyTorch's and our out-of-memory errors are of this type
        if fatal:
            raise
        return None


def leave_free_mbs(n: int) -> Any:
    """Holds all of the current device except `n` MB, to within 2 MB."""
    _pools.empty_caches()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        preload()  # the cost of initialisation must not reduce the remaining memory
    elif _devices.visible():
        _driver.retain_context(_devices.current())
    free = b2mb(free_bytes())
    assert free >= n, f"already have less available mem than desired {n}MBs"
    consume = free - n
    held = _held(consume)
    assert held is not None, f"failed to allocate {consume}MB"
    return held


def _held(megabytes: int) -> Optional[Any]:
    """Memory from the driver, so that the card loses exactly this much and no pool keeps it."""
    try:
        return _driver.Allocation(megabytes * 2**20, _devices.current())
    except _driver.CudaError:
        return None
