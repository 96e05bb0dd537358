"""The tables of `showUtilization`: the current one, whose columns fit their cells, and that of GPUtil 1.2."""

from typing import Any, Dict, List, Sequence

__all__ = ["EVERYTHING", "SHORT", "older", "table"]

Column = Dict[str, Any]


def _column(attr: str, name: str, suffix: str = "", scale: int = 1) -> Column:
    """A text column, or (with a suffix) a column of integers."""
    column: Column = {"attr": attr, "name": name}
    if suffix:
        column.update(suffix=suffix, precision=0, transform=lambda value: value * scale)
    return column


EVERYTHING: List[List[Column]] = [
    [_column("id", "ID"), _column("name", "Name"), _column("serial", "Serial"), _column("uuid", "UUID")],
    [_column("temperature", "GPU temp.", "C"), _column("load", "GPU util.", "%", 100),
     _column("memoryUtil", "Memory util.", "%", 100)],
    [_column("memoryTotal", "Memory total", "MB"), _column("memoryUsed", "Memory used", "MB"),
     _column("memoryFree", "Memory free", "MB")],
    [_column("display_mode", "Display mode"), _column("display_active", "Display active")],
]
SHORT: List[List[Column]] = [
    [_column("id", "ID"), _column("load", "GPU", "%", 100), _column("memoryUtil", "MEM", "%", 100)]
]

_OLDER_SHORT = " ID  GPU  MEM"
_OLDER_ALL = (
    " ID | Name | Serial | UUID || GPU util. | Memory util. || Memory total | Memory used | Memory free "
    "|| Display mode | Display active |"
)


def table(gpus: Sequence[Any], groups: Sequence[Sequence[Column]]) -> List[str]:
    """Lines: a head, a rule, and a row for each card. Text is aligned to the left, numbers to the right before
    their suffix; two bars separate groups."""
    head, rows = "", [""] * len(gpus)
    for group in groups:
        for column in group:
            suffix = str(column.get("suffix", ""))
            values = [column.get("transform", lambda value: value)(getattr(gpu, column["attr"])) for gpu in gpus]
            texts = [_text(value, column) for value in values]
            width = max(map(len, [column["name"], *(text + suffix for text in texts)]))
            cells = [
                (text.ljust if isinstance(value, str) else text.rjust)(width - len(suffix)) + suffix
                for value, text in zip(values, texts)
            ]
            head += f"| {column['name']:<{width}} "
            rows = [f"{row}| {cell} " for row, cell in zip(rows, cells)]
        head, rows = head + "|", [row + "|" for row in rows]
    return [head, "-" * len(head), *rows]


def _text(value: Any, column: Column) -> str:
    if isinstance(value, float):
        precision = column.get("precision")
        return f"{value:f}" if precision is None else f"{value:.{precision}f}"
    if isinstance(value, (int, str)):
        return str(value)
    raise TypeError(f"Unhandled object type ({type(value)}) for attribute '{column['name']}'")


def older(gpus: Sequence[Any], everything: bool) -> List[str]:
    """Lines of the table for `useOldCode`."""
    head = _OLDER_ALL if everything else _OLDER_SHORT
    lines = [head, "-" * (126 if everything else 14)]
    for gpu in gpus:
        load, memory = f"{gpu.load * 100:3.0f}%", f"{gpu.memoryUtil * 100:3.0f}%"
        if not everything:
            lines.append(f" {gpu.id:2d} {load} {memory}")
            continue
        amounts = " | ".join(f"{size:.0f}MB" for size in (gpu.memoryTotal, gpu.memoryUsed, gpu.memoryFree))
        lines.append(
            f" {gpu.id:2d} | {gpu.name}  | {gpu.serial} | {gpu.uuid} || {load} | {memory} || {amounts} "
            f"|| {gpu.display_mode} | {gpu.display_active}"
        )
    return lines
