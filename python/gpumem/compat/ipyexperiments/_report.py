"""The text of reports, in the original's format. Column widths fit the largest figure."""

from datetime import timedelta
from typing import Any, Iterable, List, Sequence, Tuple

from .._trace import b2mb

__all__ = ["b2mb", "cell", "compact_cell", "int2width", "outcome", "secs2time", "state"]

Row = Tuple[str, Sequence[int]]
"""`CPU` or `GPU`, and its figures in bytes."""


def int2width(*n: int) -> int:
    """The number of characters of the longest integer in `{:,}` format; a sign counts as a digit."""
    digits = max(len(str(number)) for number in n)
    return digits + (digits - 1) // 3


def secs2time(secs: float) -> str:
    """Seconds as `H:MM:SS.mmm`, milliseconds rounded toward zero."""
    whole = int(secs)
    return f"{timedelta(seconds=whole)}.{int(abs(secs - whole) * 1000):03d}"


def _width(rows: Iterable[Row], least: int = 0) -> int:
    return max(int2width(*(b2mb(value) for _, values in rows for value in values)) + 1, least)


def _columns(values: Sequence[Any], width: int) -> str:
    return " ".join(f"{b2mb(value):{width},}" for value in values)


def _share(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 100.0


def state(rows: Sequence[Row]) -> str:
    """`*** Current state`: used, free and total of each row."""
    width = _width(rows)
    lines = ["\n*** Current state:", f"RAM: {'Used':>{width}} {'Free':>{width}} {'Total':>{width}}    {'Util':>{width}}"]
    for name, (used, free, total) in rows:
        lines.append(f"{name}: {_columns((used, free, total), width)} MB {_share(used, total):6.2f}% ")
    return "\n".join(lines)


def outcome(rows: Sequence[Row]) -> str:
    """`*** Experiment memory`: consumed and reclaimed of each row."""
    width = _width(rows, least=8)
    lines = ["\n*** Experiment memory:", f"RAM: {'Consumed':>{width}}       {'Reclaimed':>{width}}"]
    for name, (consumed, reclaimed) in rows:
        lines.append(f"{name}: {_columns((consumed, reclaimed), width)} MB ({_share(reclaimed, consumed):6.2f}%)")
    return "\n".join(lines)


def cell(rows: Sequence[Row], seconds: float) -> str:
    """A cell's three or two lines: consumed, peaked and total of each row."""
    width = _width(rows, least=10)
    columns = f"{'△Consumed':>{width}} {'△Peaked':>{width}}    {'Used Total':>{width}}"
    head = f"･ RAM: {columns} | Exec time {secs2time(seconds)}"
    return "\n".join([head, *(f"･ {name}: {_columns(values, width)} MB |" for name, values in rows)])


def compact_cell(rows: Sequence[Row], seconds: float) -> str:
    """The same in one line."""
    parts = [f"{name}: {'/'.join(str(b2mb(value)) for value in values)} MB" for name, values in rows]
    return " | ".join([*parts, f"Time {secs2time(seconds)}", "(Consumed/Peaked/Used Total)"])
