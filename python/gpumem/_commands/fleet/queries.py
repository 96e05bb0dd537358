"""The queries in the package: SQL that DuckDB and Spark run unchanged.

A file of queries/ answers a question. Those of queries/outliers/ select the rows that `gpumem-analyze fleet outliers` compares."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

_HERE = Path(__file__).resolve().parent
_KNOWN = json.loads((_HERE / "tables.json").read_text(encoding="utf-8"))

SCHEMA: int = _KNOWN["schema"]
# Table: column: type in SQL. Written by the tests of the crate that defines them.
TABLES: Dict[str, Dict[str, str]] = {name: table["columns"] for name, table in _KNOWN["tables"].items()}
# Columns from a file's path, which are not in the file.
OF_PATH = {"run": "VARCHAR", "node": "VARCHAR"}
# The name of a row's file, which is that of its part.
PART = "_part"
# A table of the captures that are in the dataset. A capture that two machines ingested has rows in two parts; those of one
# count.
CAPTURES = "_captures"
COUNTED = f"select capture, min({PART}) as {PART} from {{rows}} group by capture"
# Tables whose rows are repeated in several parts or runs.
_SHARED = {
    "lines": "select {columns} from (select *, row_number() over (partition by line_key order by line desc nulls last, label, "
    "file nulls last, function nulls last, text nulls last) as newest from {rows}) where newest = 1",
    "frames": "select distinct {columns} from {rows}",
}
_OF_CAPTURES = f"select {{columns}} from {{rows}} join {CAPTURES} using (capture, {PART})"


def view(table: str, rows: str) -> str:
    """The SELECT for a table's files; `rows` also has the column `PART`. Lines and stacks are the same in all runs."""
    columns = list(TABLES[table]) if table in _SHARED else [*TABLES[table], *OF_PATH]
    return _SHARED.get(table, _OF_CAPTURES).format(columns=", ".join(columns), rows=rows)


class Query:
    """One of the .sql files."""

    def __init__(self, path: Path) -> None:
        self.name = path.stem
        self.sql = path.read_text(encoding="utf-8")

    @property
    def about(self) -> str:
        """The first sentence of its comment."""
        lines = [line[2:].strip() for line in self._comment()]
        return " ".join(lines[: lines.index("") if "" in lines else None]).partition(". ")[0].rstrip(".") + "."

    @property
    def columns(self) -> List[Tuple[str, Any, str]]:
        """Name, type and text of each column, from its comment: `-- bytes: int? …`."""
        found = (_COLUMN.match(line) for line in self._comment())
        return [(of[1], Optional[_TYPES[of[2]]] if of[3] else _TYPES[of[2]], of[4]) for of in found if of]

    @property
    def parameters(self) -> List[str]:
        """Names of its parameters, such as `:top`."""
        return sorted(set(_PARAMETER.findall(self._code())))

    def for_duckdb(self) -> str:
        """The text with DuckDB's form of parameters. Spark accepts `:top` unchanged."""
        return _PARAMETER.sub(r"$\1", self._code())

    def _comment(self) -> List[str]:
        lines = self.sql.splitlines()
        return lines[: next(place for place, line in enumerate(lines) if not line.startswith("--"))]

    def _code(self) -> str:
        return re.sub(r"--[^\n]*", "", self.sql)


_PARAMETER = re.compile(r":([a-z]+)")
_COLUMN = re.compile(r"-- (\w+): (text|int|float)(\??) +(.*)")
_TYPES: Dict[str, Any] = {"text": str, "int": int, "float": float}


# The selections of rows of the question `outliers`.
OUTLIERS = [Query(path) for path in sorted((_HERE / "queries" / "outliers").glob("*.sql"))]


def known() -> List[Query]:
    """All queries that answer a question, by name."""
    return [Query(path) for path in sorted((_HERE / "queries").glob("*.sql"))]


def find(name: str) -> Query:
    """The query with that name. The message of LookupError lists the existing ones."""
    for query in known():
        if query.name == name:
            return query
    raise LookupError(f"no such query: {name} (queries: {', '.join(sorted(['outliers', *(query.name for query in known())]))})")


def tables_in(sql: str) -> List[str]:
    """The tables that an SQL text may read: those whose names it contains."""
    words = set(re.findall(r"\w+", sql.lower()))
    return [table for table in TABLES if table in words]


def defaults(query: Query, given: Dict[str, Any]) -> Dict[str, Any]:
    """The given values for the parameters of the query."""
    return {name: given[name] for name in query.parameters}
