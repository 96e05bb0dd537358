"""`gpumem report --hints` and `gpumem oom`: the analyzer's answer, with replays of the capture under other settings."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Optional, Sequence

from .._machine import installed
from .._reading.analysis import Unreadable, answered
from .._text.messages import Progress, say
from . import text
from .captures import devices_of, python_for
from .form import FORM
from .search import search
from .servers import Failed, Servers

# The analyzer answers these, or has the error.
_GIVEN = ("-h", "--help", "--whatif", "--all", "--debug-dir", "--symbols", "--sysroot")


def main(view: str, words: Sequence[str]) -> int:
    """Shows the view. Returns the exit status."""
    command = [str(installed.analyzer()), view, *words]
    captures = [Path(word) for word in words if Path(word).is_file()]
    # More than one name: the analyzer has the error.
    whatif = _replayed(captures[0]) if len(captures) == 1 and not any(word.startswith(_GIVEN) for word in words) else None
    if not whatif:
        return subprocess.run(command).returncode
    with tempfile.NamedTemporaryFile("w", prefix="gpumem-whatif-", suffix=".json", encoding="utf-8") as file:
        file.write(whatif)
        file.flush()
        return subprocess.run([*command, "--whatif", file.name]).returncode


def _replayed(capture: Path) -> Optional[str]:
    """The JSON of `gpumem whatif`. None if the capture cannot be replayed; if that has a reason, stderr has it."""
    progress = Progress()
    try:
        answer = answered(capture, "report", "--all")
        summary = answer.body
        if not any(device["tensor"]["allocations"] for device in summary["devices"]):
            return None
        devices = devices_of(capture, summary, None)
        with Servers(python_for(None, summary), os.cpu_count() or 1) as servers:
            results = search(servers, devices, devices[0].settings, None, progress.told("replaying other settings"))
        doubts = text.doubts({capture: summary}, devices, results, None)
        return FORM.json(text.as_json(devices, results, doubts, None), [answer.capture])
    except Unreadable:
        # The analyzer says why.
        return None
    except (Failed, installed.Missing) as error:
        say(f"other settings of PyTorch's allocator were not replayed: {error}")
        return None
    finally:
        progress.end()
