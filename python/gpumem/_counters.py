"""What libgpumem.so counts for each device and level."""

from typing import NamedTuple

from . import _library


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


def check_device(device: int) -> int:
    """The ordinal, if it can be one."""
    if not 0 <= device < 255:
        raise ValueError(f"no such device: {device}")
    return device


def counters(device: int = 0) -> DeviceCounters:
    """The counters of a device, by its ordinal in this process; zeros while nothing is recorded."""
    check_device(device)
    return DeviceCounters(*(Counters(*_library.counters(device, level)) for level in _library.LEVELS))
