"""Tables as text: columns of equal width."""

from typing import Collection, List, Sequence


def aligned(rows: Sequence[Sequence[str]], left: Collection[int] = ()) -> List[str]:
    """A line for each row. Cells are at the right of their column, in the columns `left` at its left."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(_cell(cell, width, place in left) for place, (cell, width) in enumerate(zip(row, widths))).rstrip() for row in rows]


def _cell(text: str, width: int, is_left: bool) -> str:
    return text.ljust(width) if is_left else text.rjust(width)
