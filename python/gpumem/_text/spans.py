"""Text for figures of which only the lowest and highest value are known."""

from __future__ import annotations

from typing import Callable, Sequence, Tuple

from . import sizes

Span = Tuple[int, int]


def between(span: Span) -> str:
    """`1.01 GiB`, or `between 1.01 and 1.05 GiB`."""
    return _joined(span, sizes.text, "between ", " and ")


def to(span: Sequence[int], text: Callable[[int], str] = sizes.text) -> str:
    """`1.01 GiB`, or `1.01 to 1.05 GiB`; `text` formats other figures."""
    return _joined(span, text, "", " to ")


def less(change: Span, of: int) -> str:
    """A change that is not an increase: `370 MiB less (36%)`, or `between 350 and 370 MiB less (34% to 36%)`."""
    most, least = -change[0], -change[1]
    shares = to((least, most), lambda size: f"{size / of:.0%}") if of else ""
    if least <= 0:
        return f"up to {sizes.text(most)} less"
    return between((least, most)) + " less" + (f" ({shares})" if shares else "")


def _joined(span: Sequence[int], text: Callable[[int], str], before: str, middle: str) -> str:
    least, greatest = (text(figure) for figure in span)
    if least == greatest:
        return least
    number, _, unit = least.partition(" ")
    # Zero fits any unit.
    same = unit and (greatest.endswith(f" {unit}") or span[0] == 0)
    return f"{before}{number if same else least}{middle}{greatest}"
