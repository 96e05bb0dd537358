"""What gpumem-analyze says of a capture."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Union

from . import _files


class Unreadable(Exception):
    """Nothing, for the reason in it."""


def found(answer: Union[str, bytes]) -> Any:
    """What `--format json` of gpumem-analyze has below its head (docs/json.md): a list of rows, or an object."""
    said = json.loads(answer)
    return said["rows"] if "rows" in said else said["data"]


def analyzed(capture: Path, view: str, *options: str) -> Any:
    """A view's JSON."""
    command = [str(_files.analyzer()), view, "--format", "json", *options, str(capture)]
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout:
        raise Unreadable((done.stderr.strip().splitlines() or [f"{capture} cannot be read"])[-1])
    return found(done.stdout)
