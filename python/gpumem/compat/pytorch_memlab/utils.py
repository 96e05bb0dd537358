"""`pytorch_memlab.utils`: the format of sizes."""

from math import isnan

__all__ = ["readable_size"]


def readable_size(num_bytes: float) -> str:
    """Bytes with two decimals and the unit (2**10 steps): `0.00B`, `40.00K`, `2.00M`; an empty text for nan."""
    if isnan(num_bytes):
        return ""
    size = float(num_bytes)
    for unit in "BKMGT":
        if abs(size) < 1024:
            return f"{size:.2f}{unit}"
        size /= 1024
    return f"{size:.2f}P"
