"""DuckDB with a view for each table of a dataset. For a folder it downloads nothing; for an object store its extensions."""

from __future__ import annotations

import os
import tempfile
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from . import stores
from .queries import CAPTURES, COUNTED, OF_PATH, PART, TABLES, view
from .stores import Refused

_INSTALL = "needs DuckDB: pip install 'libgpumem[fleet]'"


class Answer(NamedTuple):
    """Columns and rows."""

    columns: List[str]
    rows: Sequence[Sequence[Any]]


class Engine:
    """A connection in which the dataset's tables are views."""

    def __init__(self) -> None:
        self._is_reached = False
        try:
            import duckdb
        except ImportError:
            raise Refused(_INSTALL) from None
        self._error = duckdb.Error
        self._connection = duckdb.connect(
            config={
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "temp_directory": os.path.join(tempfile.gettempdir(), f"gpumem-fleet-{os.getpid()}"),
            }
        )

    def files(self, dataset: str, run: Optional[str]) -> List[str]:
        """The Parquet files of a run, or of all."""
        if "://" in dataset:
            if not self._is_reached:
                stores.reach(self._run, dataset)
            self._is_reached = True
        found = f"{_plain(dataset)}/run={'*' if run is None else _plain(run)}/table=*/node=*/*.parquet"
        try:
            return sorted(row[0] for row in self._run("select file from glob(?)", [found]).fetchall())
        except Refused as error:
            raise Refused(f"{dataset} cannot be listed: {str(error).partition(chr(10))[0]}") from None

    def view(self, files: Mapping[str, Sequence[str]]) -> None:
        """Creates a view for each table with these files. Without files it is empty, but has all columns."""
        counted = COUNTED.format(rows=self._rows("ranks", files.get("ranks", ())))
        self._run(f"create or replace temp table {CAPTURES} as {counted}")
        for table, paths in files.items():
            rows = self._rows(table, paths)
            self._run(f"create or replace view {table} as {view(table, rows)}")

    def ask(self, sql: str, parameters: Optional[Dict[str, Any]] = None) -> Answer:
        """Runs the query."""
        done = self._run(sql, parameters)
        columns = [column[0] for column in done.description or ()]
        return Answer(columns, done.fetchall())

    def write(self, sql: str, path: str) -> None:
        """Writes the answer as a Parquet file."""
        self._run(f"copy ({sql}) to {_literal(path)} (format parquet, compression zstd)")

    def _rows(self, table: str, paths: Sequence[str]) -> str:
        columns = {**TABLES[table], **OF_PATH, PART: "VARCHAR"}
        if not paths:
            empty = ", ".join(f"null::{kind} as {name}" for name, kind in columns.items())
            return f"(select {empty} where false)"
        read = (
            f"read_parquet([{', '.join(_literal(_plain(path)) for path in paths)}], hive_partitioning = true, union_by_name = true, filename = true, "
            "hive_types = {'run': VARCHAR, 'node': VARCHAR})"
        )
        found = {row[0]: row[1] for row in self._run(f"describe select * from {read}").fetchall()}
        found[PART] = "VARCHAR"
        # Files of older versions lack columns.
        cells = ", ".join(_cell(name, kind, found.get(name)) for name, kind in columns.items())
        return f"(select {cells} from (select *, parse_filename(filename) as {PART} from {read}))"

    def _run(self, sql: str, parameters: Any = None) -> Any:
        try:
            return self._connection.execute(sql, parameters)
        except self._error as error:
            raise Refused(str(error)) from None


def _cell(name: str, kind: str, found: Optional[str]) -> str:
    if found is None:
        return f"null::{kind} as {name}"
    # Times in files are UTC. Without a time zone they do not depend on this machine's.
    return f"{name} at time zone 'UTC' as {name}" if found == "TIMESTAMP WITH TIME ZONE" else name


def _plain(path: str) -> str:
    """A path without patterns."""
    return "".join(f"[{letter}]" if letter in "[*?" else letter for letter in path)


def _literal(text: str) -> str:
    """An SQL string."""
    return "'" + text.replace("'", "''") + "'"
