"""The files of a dataset: in a folder, or in an object store, of which a copy is kept in the cache."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Dict, List, Sequence

from .. import _files

__all__ = ["NoDataset", "located", "of_tables"]


class NoDataset(Exception):
    """The dataset or the requested part does not exist; the message has the details."""


def located(dataset: str, runs: Sequence[str], tables: Sequence[str]) -> Path:
    """The folder with these tables: the dataset itself, or its updated copy."""
    if "://" not in dataset:
        return Path(dataset)
    name = hashlib.sha256(dataset.rstrip("/").encode()).hexdigest()[:16]
    folder = _files.cache() / "gpumem" / "fleet" / name
    folder.mkdir(parents=True, exist_ok=True)
    command = [str(_files.analyzer()), "fleet", "fetch", dataset, str(folder)]
    for option, values in (("--run", runs), ("--table", tables)):
        command += [word for value in values for word in (option, value)]
    # Its progress messages are for people, and stdout is reserved for the result.
    done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise NoDataset(f"{dataset} could not be fetched")
    return folder


def of_tables(folder: Path, runs: Sequence[str], tables: Sequence[str]) -> Dict[str, List[Path]]:
    """The files of each table, for these runs or for all."""
    there = sorted(path.name[len("run=") :] for path in folder.glob("run=*") if path.is_dir())
    if not there:
        raise NoDataset(f"{folder} is not a dataset: it has no folders run=… (gpumem fleet ingest CAPTURES {folder})")
    for run in runs:
        if run not in there:
            raise NoDataset(f"{folder} has no run {run}; it has {_named(there)}")
    chosen = sorted(set(runs)) or there
    found: Dict[str, List[Path]] = {table: [] for table in tables}
    for run in chosen:
        for table in tables:
            # Names that begin with `_` or `.` are not data.
            files = (folder / f"run={run}" / f"table={table}").glob("node=*/[!_.]*.parquet")
            found[table] += sorted(files)
    return found


def _named(runs: Sequence[str]) -> str:
    most = 5
    more = f" and {len(runs) - most} more" if len(runs) > most else ""
    return ", ".join(runs[:most]) + more
