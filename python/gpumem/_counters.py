"""What libgpumem.so counts for each device and level."""

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
    """Figures of one device: inside the framework's pool, from the driver, pinned host memory, and what
    the card gave (pages, pools, contexts, modules; managed memory is not in it)."""

    tensor: Counters
    driver: Counters
    host: Counters
    physical: Counters


def counters(device: DeviceLike = 0) -> DeviceCounters:
    """The counters of a device: its ordinal in this process, "cuda:1" or a `torch.device`; zeros while nothing is recorded."""
    of = ordinal(device)
    return DeviceCounters(*(Counters(*_library.counters(of, level)) for level in _library.LEVELS))
