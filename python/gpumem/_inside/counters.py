"""The counters of libgpumem.so for each device and level."""

from typing import NamedTuple

from .._machine.ordinals import DeviceLike, ordinal
from . import library


class Counters(NamedTuple):
    """Figures of one device at one level, in bytes and calls since the recording began."""

    live_bytes: int  #: Bytes that are live now.
    peak_bytes: int  #: The most bytes that were live at once.
    allocations: int  #: The number of allocations.
    frees: int  #: The number of frees.


class DeviceCounters(NamedTuple):
    """Figures of one device, by level."""

    tensor: Counters  #: Tensors in the framework's pool.
    driver: Counters  #: Memory that the process requested from CUDA.
    host: Counters  #: Pinned host memory.
    physical: Counters  #: Memory of the card: pages, pools, contexts, modules; without managed memory.


def counters(device: DeviceLike = 0) -> DeviceCounters:
    """The counters of a device, in bytes and calls. Zeros if the process is not recorded. Raises ValueError if there is no
    such device."""
    of = ordinal(device)
    return DeviceCounters(*(Counters(*library.counters(of, level)) for level in library.LEVELS))
