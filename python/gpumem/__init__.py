"""gpumem from inside the recorded program: what libgpumem.so counts, while the run goes on.

    import gpumem

    before = gpumem.counters(0).tensor.live_bytes
    ...
    print(gpumem.counters(0).tensor.live_bytes - before)

The figures are exact and cost no synchronisation; reading them disturbs nothing. They come from the
library in this process, which is there if it was preloaded:
`LD_PRELOAD=target/release/libgpumem.so python train.py`. Without it everything here still imports;
`api_version()` is None and all counters are zero."""

import ctypes
from typing import NamedTuple, Optional

from ._limit import limit as limit

__all__ = ["Counters", "DeviceCounters", "api_version", "counters", "recording", "step"]

_TENSOR, _DRIVER, _HOST, _PHYSICAL = 0, 1, 2, 3


class Counters(NamedTuple):
    """Figures of one device at one level, in bytes and calls since the recording began."""

    live_bytes: int
    peak_bytes: int
    allocations: int
    frees: int


class DeviceCounters(NamedTuple):
    """Figures of one device: inside the framework's pool, from the driver, pinned host memory, and what
    the card gave (pages, pools, contexts, modules; managed memory is not in it)."""

    tensor: Counters
    driver: Counters
    host: Counters
    physical: Counters


class _Row(ctypes.Structure):
    """GpumemCounters of gpumem.h."""

    _fields_ = [(name, ctypes.c_uint64) for name in Counters._fields]


def _find_library() -> Optional[ctypes.CDLL]:
    """This process's libgpumem.so, if it was preloaded: its symbols are then global ones."""
    everything = ctypes.CDLL(None)
    if not hasattr(everything, "gpumem_api_version"):
        return None
    everything.gpumem_counters.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.POINTER(_Row)]
    return everything


_library = _find_library()


def api_version() -> Optional[int]:
    """Version of the C API in this process; None if libgpumem.so was not preloaded."""
    return None if _library is None else int(_library.gpumem_api_version())


def recording() -> bool:
    """Whether this process is recorded at this moment. It is from its first CUDA call on."""
    return _library is not None and _library.gpumem_recording() == 1


def _row(device: int, level: int) -> Counters:
    row = _Row()
    if recording() and _library.gpumem_counters(device, level, ctypes.byref(row)) == 2:
        raise ValueError(f"no such device: {device}")
    return Counters(*(getattr(row, name) for name in Counters._fields))


def counters(device: int = 0) -> DeviceCounters:
    """The counters of a device, by its ordinal in this process; zeros while nothing is recorded."""
    if not 0 <= device < 255:
        raise ValueError(f"no such device: {device}")
    levels = (_TENSOR, _DRIVER, _HOST, _PHYSICAL)
    return DeviceCounters(*(_row(device, level) for level in levels))


def step() -> bool:
    """Says that a step of the training has ended; whether it was recorded. From the first call on, steps
    are what the program says; before, they are found by what PyTorch's optimizers do."""
    return hasattr(_library, "gpumem_step") and _library.gpumem_step() == 0
