"""Sizes for people: KiB, MiB and GiB are powers of 1024, KB, MB and GB of 1000."""

import re

_UNITS = {
    "": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
    "KB": 10**3, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
}  # fmt: skip
_PATTERN = re.compile(r"\s*(\d+)(?:\.(\d+))?\s*([A-Za-z]*)\s*\Z")


def parse(text: object) -> int:
    """Bytes of `2 GiB`, `1.5GiB`, `4096` or an integer. Raises ValueError with the error."""
    if isinstance(text, int) and not isinstance(text, bool) and text >= 0:
        return text
    found = _PATTERN.match(text) if isinstance(text, str) else None
    if not found or found[3] not in _UNITS:
        raise ValueError(f"{text!r} is not a size: write bytes, or a number with KiB, MiB or GiB")
    whole, fraction, unit = found[1], found[2] or "", found[3]
    # With integers, so that no size is rounded as a float.
    size: int
    size, rest = divmod(int(whole + fraction) * _UNITS[unit], 10 ** len(fraction))
    if rest and _UNITS[unit] == 1:
        raise ValueError(f"{text!r} is not a size: bytes are whole")
    return size


def parse_of_card(text: object) -> int:
    """The same for the size of a card or a file, in which `5` does not mean 5 GiB. Raises ValueError with the error."""
    size = parse(text)
    if 0 < size < 1 << 20:
        raise ValueError(f"{text!r} is {size} bytes: write a unit, as in {size}GiB" if isinstance(text, int) or
                         str(text).strip().isdecimal() else f"{text!r} is less than a MiB")
    return size


def change(size: int) -> str:
    """A difference of sizes with its sign: `+1.59 GiB`, `-12 B`, `0`."""
    return f"{'+' if size > 0 else ''}{text(size)}" if size else "0"


def text(size: int) -> str:
    """The size with three digits, as gpumem-analyze writes it: `1.59 GiB`, `346 MiB`, `12 B`."""
    sign, size = ("-", -size) if size < 0 else ("", size)
    if size < 1024:
        return f"{sign}{size} B"
    value = float(size)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        value /= 1024
        for digits, limit in ((2, 10), (1, 100), (0, 1024)):
            if round(value, digits) < limit:
                return f"{sign}{value:.{digits}f} {unit}"
    return f"{sign}{value:.0f} TiB"
