"""The captures that are checked in: tests/data/captures. scripts/lib/docs-captures records them."""

from __future__ import annotations

import atexit
import functools
import gzip
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import harness

FOLDER = harness.CAPTURES
# Where their programs were.
PROGRAMS = Path("/srv/job")
TRAININGS = {"torch215": "trained/new", "torch112": "trained/old"}


@functools.lru_cache(maxsize=None)
def _copies() -> Path:
    folder = tempfile.mkdtemp(prefix="gpumem-captures-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@functools.lru_cache(maxsize=None)
def capture(name: str) -> Path:
    """A copy, report.bin in its own folder: commands write their files beside it."""
    copy = _copies() / name / "report.bin"
    copy.parent.mkdir(parents=True)
    copy.write_bytes(content(f"{name}.bin"))
    return copy


@functools.lru_cache(maxsize=None)
def job(name: str) -> Path:
    """A folder with copies of the captures of a job's ranks."""
    copies = _copies() / "jobs" / name
    copies.mkdir(parents=True)
    for file in sorted((FOLDER / name).iterdir()):
        file = file.name.removesuffix(".gz")
        (copies / file).write_bytes(content(f"{name}/{file}"))
        # A new file of another machine may still grow.
        os.utime(copies / file, (1_500_000_000, 1_500_000_000))
    return copies


def content(file: str) -> bytes:
    """A file of the folder. What only tests read is compressed."""
    path = FOLDER / file
    return path.read_bytes() if path.exists() else gzip.decompress(path.with_name(f"{path.name}.gz").read_bytes())


def printed(name: str) -> str:
    """What the program and the recorder printed."""
    return (FOLDER / f"{name}.txt").read_text()


@functools.lru_cache(maxsize=None)
def trained(environment: str) -> harness.Trained:
    """The training of conftest's `trained`, with its figures."""
    name = TRAININGS[environment]
    done = subprocess.CompletedProcess([name], 0, printed(name), "")
    return harness.Trained(environment, capture(name), harness.figures(done), done)
