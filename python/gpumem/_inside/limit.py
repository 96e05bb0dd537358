"""Limits the memory of a card at run time, as GPUMEM_LIMIT does from the start."""

import ctypes
from typing import Optional, Union

from .._machine.ordinals import DeviceLike, ordinal_or_none
from .._text import sizes

# Devices that can have a limit.
_DEVICES = 64


def limit(size: Union[int, str, None], device: Optional[DeviceLike] = None) -> bool:
    """Limits the memory of the card of `device` (None: every device) to `size` from now on. Allocations that do not
    fit such a card fail with the driver's error, and cuMemGetInfo and NVML show the limit. Live memory above it
    stays. `size` is in bytes, or a text such as "24 GiB". None or 0 removes the limit. Returns whether the limit is in effect,
    which requires libgpumem.so. Raises ValueError for another size, or if there is no such device."""
    size = 0 if size is None else sizes.parse_of_card(size)
    if size >= 2**64:
        raise ValueError(f"not a size of a card: {size} bytes")
    of = ordinal_or_none(device)
    if of is not None and of >= _DEVICES:
        raise ValueError(f"no such device: {device}")
    library = ctypes.CDLL(None)
    if not hasattr(library, "gpumem_limit"):
        return False
    library.gpumem_limit.argtypes = [ctypes.c_int, ctypes.c_uint64]
    return bool(library.gpumem_limit(-1 if of is None else of, size) == 0)
