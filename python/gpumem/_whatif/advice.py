"""`gpumem hints` and `gpumem oom`: the analyzer's view of a capture, and results of replays with other settings."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Sequence

from .. import _files
from .._analysis import Unreadable, analyzed
from .._progress import Progress
from .._report import show, wrapped
from . import text
from .captures import devices_of, python_for
from .search import search
from .servers import Failed, Servers

COMPLETE, PARTIAL = 0, 3


def main(view: str, words: Sequence[str]) -> int:
    """Shows the view. Returns the exit status."""
    done = subprocess.run([str(_files.analyzer()), view, *words])
    captures = [Path(word) for word in words if Path(word).is_file()]
    # JSON output contains only the view.
    if done.returncode in (COMPLETE, PARTIAL) and len(captures) == 1 and not _has_format(words):
        show("\n".join(["", *_replayed(captures[0])]))
    return done.returncode


def _has_format(words: Sequence[str]) -> bool:
    return any(word.startswith("--format") for word in words) and "text" not in " ".join(words)


def _replayed(capture: Path) -> Sequence[str]:
    progress = Progress()
    try:
        summary = analyzed(capture, "summary")
        devices = devices_of(capture, summary, None)
        with Servers(python_for(None, summary), os.cpu_count() or 1) as servers:
            results = search(servers, devices, devices[0].settings, None, progress.told("replaying other settings"))
    except (Failed, Unreadable, _files.Missing) as error:
        return wrapped([f"Other settings of PyTorch's allocator were not replayed: {error}"])
    finally:
        progress.end()
    return text.advice(results, text.doubts({capture: summary}, devices, results, None), devices[0])
