"""Runs gpumem-analyze and reads its JSON. Only this module starts it for results."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from .._machine import installed
from .._text.forms import Capture

# The exit code of a partial result. The analyzer prints the missing parts on stderr.
PARTIAL = 3
_NAME = "gpumem-analyze: "


class Unreadable(RuntimeError):
    """There is no result; the message is the reason."""


class Answer(NamedTuple):
    """A view's rows or data, the missing parts, one line each, and the head's `capture`."""

    body: Any
    missing: List[str]
    capture: Capture


def _body(said: Dict[str, Any]) -> Any:
    """The content of `--format json` without its head (docs/json.md): a list of rows, or an object."""
    return said["rows"] if "rows" in said else said["data"]


def analyzed(capture: Path, view: str, *options: str) -> Any:
    """A view's rows or data."""
    return answered(capture, view, *options).body


def answered(capture: Path, view: str, *options: str) -> Answer:
    """The same with what is known of the capture."""
    return ask(installed.analyzer(), capture, view, options)


def ask(analyzer: Path, capture: Path, view: str, options: Sequence[str] = ()) -> Answer:
    """The JSON of a view."""
    command = [str(analyzer), view, "--format", "json", *options, named(capture)]
    try:
        done = subprocess.run(
            command, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False
        )
    except OSError as error:
        raise missing_analyzer(analyzer, error) from None
    said = lines_of(done.stderr)
    if not done.stdout.strip():
        raise Unreadable(reason(said, done.returncode, capture))
    answer = json.loads(done.stdout)
    return Answer(_body(answer), partial(said) if done.returncode == PARTIAL else [], answer["capture"])


def environment() -> Dict[str, str]:
    """The analyzer's environment, without the recorder: the analyzer is not part of the program."""
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}


def named(capture: Path) -> str:
    """The capture as an argument that cannot be taken for an option."""
    text = str(capture)
    return f"./{text}" if text.startswith("-") else text


def lines_of(stderr: bytes) -> List[str]:
    """The analyzer's messages, without its name."""
    lines = stderr.decode("utf-8", "replace").strip().splitlines()
    return [line[len(_NAME) :] if line.startswith(_NAME) else line for line in lines]


def partial(said: Sequence[str]) -> List[str]:
    """The missing parts, from the analyzer's messages."""
    prefix = "partial: "
    return [line[len(prefix) :] for line in said if line.startswith(prefix)]


def reason(said: Sequence[str], status: int, capture: Path) -> str:
    """Why there is no result, in one line."""
    if said:
        return said[-1]
    return f"{capture} cannot be read: gpumem-analyze ended with {status}"


def missing_analyzer(analyzer: Path, error: Optional[OSError] = None) -> FileNotFoundError:
    """The error for an analyzer that cannot be started."""
    why = f": {error.strerror}" if error is not None and error.strerror else ""
    return FileNotFoundError(f"{analyzer}{why}: install gpumem's wheel, or name gpumem-analyze in GPUMEM_ANALYZE")
