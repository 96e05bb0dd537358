"""Results as text: the summary first, then a table, 80 columns wide."""

from __future__ import annotations

import datetime
import os
import sys
import textwrap
from typing import Any, Dict, List, Optional, Sequence

from ..._text import sizes
from .engine import Answer

_WIDTH = 80
# The minimum width of a text column.
_LEAST = 12


def headed(head: str, rest: str) -> str:
    """The first line, bold on a terminal, above the rest."""
    lines = "\n".join(textwrap.wrap(head, _WIDTH - 1, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False))
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        lines = f"\033[1m{lines}\033[0m"
    return f"{lines}\n\n{rest}" if rest else lines


def table(answer: Answer, heads: Optional[Dict[str, str]] = None) -> str:
    """A line for each row, with these columns under these heads. Long texts are cut at the beginning, which is
    the least useful part of a path."""
    heads = heads or {name: name for name in answer.columns}
    places = [answer.columns.index(name) for name in heads]
    numeric = [any(type(row[place]) in (int, float) for row in answer.rows) for place in places]
    fixed = [any(isinstance(row[place], (int, float, datetime.date)) for row in answer.rows) for place in places]
    cells = [[cell(name, row[place]) for name, place in zip(heads, places)] for row in answer.rows]
    rows = [list(heads.values()), *cells]
    widths = [max(map(len, column)) for column in zip(*rows)]
    _narrow(widths, fixed)
    return "\n".join("  ".join(_fitted(*of) for of in zip(row, widths, numeric)).rstrip() for row in rows)


def _narrow(widths: List[int], fixed: Sequence[bool]) -> None:
    """Shrinks the widest text column until the line fits or all have the minimum width."""
    while sum(widths) + 2 * (len(widths) - 1) > _WIDTH:
        words = [place for place, is_fixed in enumerate(fixed) if not is_fixed and widths[place] > _LEAST]
        if not words:
            return
        widths[max(words, key=lambda place: widths[place])] -= 1


def _fitted(text: str, width: int, is_number: bool) -> str:
    if is_number:
        return text.rjust(width)
    return text.ljust(width) if len(text) <= width else "…" + text[len(text) - width + 1 :]


def cell(name: str, value: Any) -> str:
    """A value for people; the column's name decides whether it is a size."""
    if value is None:
        return ""
    if name.endswith("bytes") and isinstance(value, int):
        return ("+" if name.startswith(("off_", "grown_")) and value > 0 else "") + sizes.text(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and not name.endswith(("key", "capture")):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, datetime.datetime):
        return value.strftime("%Y-%m-%d %H:%M")
    return " ".join(str(value).split())
