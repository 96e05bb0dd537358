"""DuckDB with a view for each table of a dataset. It never downloads an extension: all data is local."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from .queries import OF_PATH, TABLES, view

__all__ = ["Answer", "Engine", "Refused"]

_INSTALL = "needs DuckDB: pip install 'libgpumem[fleet]'"


class Refused(Exception):
    """DuckDB is not installed or has rejected the query; the message is the reason."""


class Answer(NamedTuple):
    """Columns and rows."""

    columns: List[str]
    rows: Sequence[Sequence[Any]]


class Engine:
    """A connection in which the dataset's tables are views."""

    def __init__(self) -> None:
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

    def view(self, files: Mapping[str, Sequence[Path]]) -> None:
        """Creates a view for each table with these files. Without files it is empty, but has all columns."""
        for table, paths in files.items():
            rows = self._rows(table, paths)
            self._run(f"create view {table} as {view(table, rows)}")

    def ask(self, sql: str, parameters: Optional[Dict[str, Any]] = None) -> Answer:
        """Runs the query."""
        done = self._run(sql, parameters)
        columns = [column[0] for column in done.description or ()]
        return Answer(columns, done.fetchall())

    def _rows(self, table: str, paths: Sequence[Path]) -> str:
        columns = {**TABLES[table], **OF_PATH}
        if not paths:
            empty = ", ".join(f"null::{kind} as {name}" for name, kind in columns.items())
            return f"(select {empty} where false)"
        read = (
            f"read_parquet([{', '.join(map(_literal, paths))}], hive_partitioning = true, union_by_name = true, "
            "hive_types = {'run': VARCHAR, 'node': VARCHAR})"
        )
        found = {row[0]: row[1] for row in self._run(f"describe select * from {read}").fetchall()}
        # Files of older versions lack columns.
        cells = ", ".join(_cell(name, kind, found.get(name)) for name, kind in columns.items())
        return f"(select {cells} from {read})"

    def _run(self, sql: str, parameters: Optional[Dict[str, Any]] = None) -> Any:
        try:
            return self._connection.execute(sql, parameters)
        except self._error as error:
            raise Refused(str(error)) from None


def _cell(name: str, kind: str, found: Optional[str]) -> str:
    if found is None:
        return f"null::{kind} as {name}"
    # Times in files are UTC. Without a time zone they do not depend on this machine's.
    return f"{name} at time zone 'UTC' as {name}" if found == "TIMESTAMP WITH TIME ZONE" else name


def _literal(path: Path) -> str:
    """A path as an SQL string without patterns."""
    plain = "".join(f"[{letter}]" if letter in "[*?" else letter for letter in str(path))
    return "'" + plain.replace("'", "''") + "'"
