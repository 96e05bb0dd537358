"""The files of a dataset, in a folder or an object store."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Union

from .engine import Engine

# Names that begin with `_` or `.` are not data.
_FILE = re.compile(r".*/run=([^/]*)/table=([^/]*)/node=[^/]*/[^/_.][^/]*\.parquet", re.DOTALL)


class NoDataset(Exception):
    """The dataset or the requested part does not exist; the message has the details."""


def of_tables(engine: Engine, dataset: Union[str, Path], runs: Sequence[str], tables: Sequence[str]) -> Dict[str, List[str]]:
    """The files of each table and of ranks, for these runs or for all."""
    found: Dict[str, List[str]] = {table: [] for table in ("ranks", *tables)}
    base = str(dataset).rstrip("/")
    wanted: Sequence[Optional[str]] = sorted(set(runs)) or [None]
    for run in wanted:
        listed = engine.files(base, run)
        if not listed:
            there = sorted(_run(path) for path in engine.files(base, None))
            if not there:
                raise NoDataset(f"{base} is not a dataset: it has no folders run=… (gpumem fleet ingest CAPTURES {base})")
            raise NoDataset(f"{base} has no run {run}; it has {_named(sorted(set(there)))}")
        for path in listed:
            of = _FILE.fullmatch(path)
            if of and of[2] in found:
                found[of[2]].append(path)
    return found


def _run(path: str) -> str:
    return path.rsplit("/", 4)[1][len("run=") :]


def _named(runs: Sequence[str]) -> str:
    most = 5
    more = f" and {len(runs) - most} more" if len(runs) > most else ""
    return ", ".join(runs[:most]) + more
