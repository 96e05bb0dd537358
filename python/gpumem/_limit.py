"""Making a card look smaller at run time, as GPUMEM_LIMIT does from the start."""

import ctypes
import re
from typing import Optional, Union

_UNITS = {
    "": 1, "B": 1,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
    "KB": 10**3, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
}


def _bytes(size: Union[int, str, None]) -> int:
    """A size in bytes: a number of them, or a text such as "8GiB", "1.5 GiB" (2**30) or "24 GB" (10**9).
    None and 0: no limit."""
    if size is None:
        return 0
    if isinstance(size, int) and not isinstance(size, bool):
        if 0 <= size < 2**64:
            return size
    elif isinstance(size, str):
        match = re.fullmatch(r"\s*(\d+)(?:\.(\d{1,9}))?\s*([A-Za-z]*)\s*", size)
        if match and match[3] in _UNITS and not (match[2] and _UNITS[match[3]] == 1):
            unit = _UNITS[match[3]]
            fraction = match[2] or "0"
            result = int(match[1]) * unit + int(fraction) * unit // 10 ** len(fraction)
            if result < 2**64:
                return result
    raise ValueError(f"not a size: {size!r}. Bytes as an int, or a text such as '8GiB', '1.5 GiB', '24 GB'")


def limit(size: Union[int, str, None], device: Optional[int] = None) -> bool:
    """Makes the card of `device` (None: of every device) look as if it had `size` in all, from now on:
    allocations that such a card would not have fail as the driver's, and cuMemGetInfo and NVML agree. What
    is live beyond it stays. `None` or 0 lifts the limit. Whether it is in force: not without libgpumem.so."""
    size = _bytes(size)
    if device is not None and (isinstance(device, bool) or not isinstance(device, int) or not 0 <= device < 64):
        raise ValueError(f"no such device: {device!r}")
    library = ctypes.CDLL(None)
    if not hasattr(library, "gpumem_limit"):
        return False
    library.gpumem_limit.argtypes = [ctypes.c_int, ctypes.c_uint64]
    return library.gpumem_limit(-1 if device is None else device, size) == 0
