"""`gpumem fleet query outliers`: DuckDB selects rows, and `gpumem-analyze fleet outliers` compares the ranks."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence

from ..._machine import installed
from . import files, queries
from .engine import Answer, Engine
from .form import OutliersRow
from .stores import Refused

ABOUT = "Ranks that differ from their peers: by how much, since which step, and on which lines."
# The names of all selections.
ALL = [query.name for query in queries.OUTLIERS]


def answer(dataset: str, runs: Sequence[str], top: int, is_text: bool) -> Optional[Answer]:
    """The rows of at most `top` ranks; `None` if they were printed as text.

    Most ranks do not differ, so steps and holders are read only of runs in which one does: one run at a time."""
    engine = Engine()
    with tempfile.TemporaryDirectory(prefix="gpumem-fleet-") as folder:
        selected = [select(engine, dataset, runs, ["ranks"], Path(folder, "all"))]
        differ = dict.fromkeys(rank["run"] for rank in _compared(selected, top))
        if differ:
            selected = [select(engine, dataset, [run], ALL, Path(folder, str(at))) for at, run in enumerate(differ)]
        if is_text:
            _run(selected, top, "text", None)
            return None
        return Answer(list(OutliersRow.__annotations__), [row for rank in _compared(selected, top) for row in _rows(rank)])


def select(engine: Engine, dataset: str, runs: Sequence[str], names: Sequence[str], to: Path) -> str:
    """Writes the rows of these names into a folder, and returns its name."""
    selections = [query for query in queries.OUTLIERS if query.name in names]
    tables = {table for query in selections for table in queries.tables_in(query.for_duckdb())}
    engine.view(files.of_tables(engine, dataset, runs, sorted(tables)))
    for query in selections:
        (to / query.name).mkdir(parents=True)
        engine.write(query.for_duckdb(), str(to / query.name / "0.parquet"))
    return str(to)


def _compared(rows: Sequence[str], top: int) -> List[Dict[str, Any]]:
    found: List[Dict[str, Any]] = json.loads(_run(rows, top, "json", subprocess.PIPE))["data"]["ranks"]
    return found


def _rows(rank: Dict[str, Any]) -> Iterator[List[Any]]:
    """A row for each figure and line."""
    for figure in rank["outliers"]:
        since = figure["since"] or {}
        cells = [rank["run"], rank["rank"], rank["peers"], figure["metric"], figure["bytes"], figure["peers"]["median"], figure["off_bytes"],
                 figure["peer_count"], since.get("first_step"), since.get("last_step")]  # fmt: skip
        lines = [(line["name"], line["bytes"], line["median_bytes"], line["bytes"] - line["median_bytes"]) for line in figure["differences"]]
        for place, line in enumerate(lines, 1):
            yield [*cells, place, *line]
        if not lines:
            yield [*cells, *[None] * 5]


def _run(rows: Sequence[str], top: int, form: str, stdout: Optional[int]) -> str:
    command = [str(installed.analyzer()), "fleet", "outliers", "--top", str(top), "--format", form, *rows]
    done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise Refused(done.stderr.strip())
    return done.stdout
