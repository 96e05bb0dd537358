"""Sizes for people: KiB, MiB and GiB are powers of 1024, KB, MB and GB of 1000."""

import re
from typing import Callable, Sequence, Tuple

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


# The lowest and the highest value of a figure.
Span = Tuple[int, int]


def between(span: Span) -> str:
    """`1.01 GiB`, or `between 1.01 and 1.05 GiB`."""
    return _joined(span, text, "between ", " and ")


def to(span: Sequence[int], form: Callable[[int], str] = text) -> str:
    """`1.01 GiB`, or `1.01 to 1.05 GiB`; `form` formats other figures."""
    return _joined(span, form, "", " to ")


def less(change: Span, of: int) -> str:
    """A change that is not an increase: `370 MiB less (36%)`, or `between 350 and 370 MiB less (34% to 36%)`."""
    most, least = -change[0], -change[1]
    shares = to((least, most), lambda size: f"{size / of:.0%}") if of else ""
    if least <= 0:
        return f"up to {text(most)} less"
    return between((least, most)) + " less" + (f" ({shares})" if shares else "")


def _joined(span: Sequence[int], form: Callable[[int], str], before: str, middle: str) -> str:
    least, greatest = (form(figure) for figure in span)
    if least == greatest:
        return least
    number, _, unit = least.partition(" ")
    # Zero fits any unit.
    same = unit and (greatest.endswith(f" {unit}") or span[0] == 0)
    return f"{before}{number if same else least}{middle}{greatest}"
