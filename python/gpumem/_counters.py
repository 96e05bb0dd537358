"""The counters of libgpumem.so for each device and level."""

from typing import NamedTuple

from . import _library
from ._ordinals import DeviceLike, ordinal


class Counters(NamedTuple):
    """Figures of one device at one level, in bytes and calls since the recording began."""

    live_bytes: int
    peak_bytes: int
    allocations: int
    frees: int


class DeviceCounters(NamedTuple):
    """Figures of one device: tensors in the framework's pool, driver memory, pinned host memory, and physical memory
    (pages, pools, contexts, modules; without managed memory)."""

    tensor: Counters
    driver: Counters
    host: Counters
    physical: Counters


def counters(device: DeviceLike = 0) -> DeviceCounters:
    """The counters of a device: its ordinal in this process, "cuda:1" or a `torch.device`. Zeros if the process is
    not recorded."""
    of = ordinal(device)
    return DeviceCounters(*(Counters(*_library.counters(of, level)) for level in _library.LEVELS))
