"""How the line profiler's figures are shown: as text, and as HTML for notebooks."""

import html
from typing import Dict, List, NamedTuple, Optional, Sequence

__all__ = ["RecordsDisplay", "Table", "readable"]


def readable(size: float) -> str:
    """Bytes with two decimals and the unit (2**10 steps): `0.00B`, `40.00K`, `2.00M`."""
    for unit in ("B", "K", "M", "G", "T"):
        if abs(size) < 1024 or unit == "T":
            return f"{size:.2f}{unit}"
        size /= 1024
    raise AssertionError("unreachable")


class Table(NamedTuple):
    """One function: its name, its source lines from `first` on, and figures by line and column."""

    name: str
    first: int
    lines: Sequence[str]
    columns: Sequence[str]
    figures: Dict[int, Dict[str, float]]

    def cell(self, line: int, column: str) -> str:
        value = self.figures.get(line, {}).get(column)
        if value is None:
            return ""
        return readable(value) if "byte" in column else f"{value:g}"


class RecordsDisplay:
    """Tables that print as text, and show as HTML in a notebook."""

    def __init__(self, tables: List[Table]) -> None:
        self.tables = tables

    def __repr__(self) -> str:
        return "\n\n".join(_text(table) for table in self.tables)

    def _repr_html_(self) -> str:
        return "".join(_html(table) for table in self.tables)


def _text(table: Table) -> str:
    heads = [column.split(".") for column in table.columns]
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
