"""Making a card look smaller at run time, as GPUMEM_LIMIT does from the start."""

import ctypes
from typing import Optional, Union

from . import _sizes
from ._ordinals import DeviceLike, ordinal_or_none

# Devices that can have a limit.
_DEVICES = 64


def limit(size: Union[int, str, None], device: Optional[DeviceLike] = None) -> bool:
    """Makes the card of `device` (None: of every device) look as if it had `size` in all, from now on:
    allocations that such a card would not have fail as the driver's, and cuMemGetInfo and NVML agree. What
    is live beyond it stays. `None` or 0 lifts the limit. Whether it is in force: not without libgpumem.so."""
    size = 0 if size is None else _sizes.parse_of_card(size)
    if size >= 2**64:
        raise ValueError(f"not a size of a card: {size} bytes")
    of = ordinal_or_none(device)
    if of is not None and of >= _DEVICES:
        raise ValueError(f"no such device: {device}")
    library = ctypes.CDLL(None)
    if not hasattr(library, "gpumem_limit"):
        return False
    library.gpumem_limit.argtypes = [ctypes.c_int, ctypes.c_uint64]
    return library.gpumem_limit(-1 if of is None else of, size) == 0
