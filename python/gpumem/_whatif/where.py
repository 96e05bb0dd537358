"""Finds the line of the program for an event of a capture."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Optional, Tuple

from .._reading.analysis import Unreadable, analyzed

Line = Tuple[str, int]


def line(capture: Path, device: int, event: int) -> Optional[str]:
    """The line that allocates a tensor's block at an event: its memory grows by the block. None: it is not known."""
    before = _held(capture, device, event - 1)
    for line, held in _held(capture, device, event).items():
        if held > before[line]:
            path, number = line
            return f"{_short(path)}:{number}"
    return None


def _held(capture: Path, device: int, event: int) -> Counter[Line]:
    try:
        rows = analyzed(capture, "lines", "--level", "tensor", "--at", str(event), "--device", str(device))
    except Unreadable:
        rows = []
    held: Counter[Line] = Counter()
    for row in rows:
        if row.get("file") and row.get("line"):
            held[row["file"], row["line"]] += row["blocks"]
    return held


def _short(path: str) -> str:
    """The path for a table: relative to the current folder, else its last three parts."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return "/".join(path.split("/")[-3:])
