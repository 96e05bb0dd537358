"""Formats the line profiler's figures: as text, and as HTML for notebooks."""

import html
from typing import Dict, List, NamedTuple, Optional, Sequence

from ..utils import readable_size

__all__ = ["RecordsDisplay", "Table", "check_columns"]

_PARTS = 3


def check_columns(columns: Sequence[str], rows: Sequence[Dict[str, float]]) -> None:
    """ValueError for an unknown name."""
    known = {name for row in rows for name in row}
    for column in columns:
        if column in known:
            continue
        if column.count(".") != _PARTS - 1:
            raise ValueError("Each column name should have three dot-separated parts")
        raise ValueError(
            "The column names should be fields of torch.cuda.memory_stat(). Options are: "
            + ", ".join(sorted(name for name in known if name.count(".") == _PARTS - 1))
        )


class Table(NamedTuple):
    """One function: its name, its source lines from `first` on, and figures by line and column."""

    name: str
    first: int
    lines: Sequence[str]
    columns: Sequence[str]
    figures: Dict[int, Dict[str, float]]

    def cell(self, line: int, column: str) -> str:
        if line not in self.figures:
            return ""
        # Figures that PyTorch did not have before it initialised CUDA were 0.
        value = self.figures[line].get(column, 0)
        return readable_size(value) if "byte" in column else str(value)


class RecordsDisplay:
    """Tables that print as text and show as HTML in a notebook; without tables, a message."""

    def __init__(self, tables: List[Table]) -> None:
        self.tables = tables

    def __repr__(self) -> str:
        return "\n\n".join(map(_text, self.tables)) or "No data collected\n"

    def _repr_html_(self) -> str:
        return "".join(map(_html, self.tables)) or "<p>No data collected</p>"


def _text(table: Table) -> str:
    heads = _heads([column.split(".") for column in table.columns])
    depth = max(map(len, heads), default=1)
    columns = []
    for column, head in zip(table.columns, heads):
        cells = [table.cell(table.first + place, column) for place in range(len(table.lines))]
        cells = head + [""] * (depth - len(head)) + cells
        columns.append([cell.rjust(max(map(len, cells))) for cell in cells])
    numbers = ["line"] + [""] * (depth - 1) + [str(table.first + place) for place in range(len(table.lines))]
    columns.append([cell.rjust(max(map(len, numbers))) for cell in numbers])
    columns.append(["code"] + [""] * (depth - 1) + [line.rstrip() for line in table.lines])
    rows = (" ".join(row[:-1]) + (f"  {row[-1]}" if row[-1] else "") for row in zip(*columns))
    return "\n".join([f"## {table.name}", "", *(row.rstrip() for row in rows)]) + "\n"


def _heads(names: List[List[str]]) -> List[List[str]]:
    """The parts of each column's name; leading parts that repeat the previous column's are blank."""
    heads = []
    for before, parts in zip([[""], *names], names):
        same = 0
        while same < len(parts) - 1 and parts[:same + 1] == before[:same + 1]:
            same += 1
        heads.append([""] * same + parts[same:])
    return heads


def _html(table: Table) -> str:
    most: Dict[str, Optional[float]] = {
        column: max((figures.get(column, 0) for figures in table.figures.values()), default=0)
        for column in table.columns
    }
    head = "".join(f"<th>{html.escape(column)}</th>" for column in (*table.columns, "line", "code"))
    rows = []
    for place, line in enumerate(table.lines):
        number = table.first + place
        cells = ""
        for column in table.columns:
            share = 100 * table.figures.get(number, {}).get(column, 0) / (most[column] or 1)
            bar = f"background:linear-gradient(90deg,#9ecae1 {share:.0f}%,transparent {share:.0f}%)"
            cells += f'<td style="text-align:right;{bar}">{table.cell(number, column)}</td>'
        rows.append(f"<tr>{cells}<td>{number}</td><td><pre>{html.escape(line.rstrip())}</pre></td></tr>")
    return f"<h3>{html.escape(table.name)}</h3><table><tr>{head}</tr>{''.join(rows)}</table>"
