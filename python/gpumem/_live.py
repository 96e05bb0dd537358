"""What is live now, by the line of code that owns it."""

import os
import subprocess
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from . import _analysis, _files, _library
from ._ordinals import DeviceLike, ordinal

ANALYZER = "gpumem-analyze"
_LEVELS = ("tensor", "driver", "host")


class LiveLine(NamedTuple):
    """The memory that one line of code owns on one device at one level. `file`, `line` and `function` are None if no
    line is known; `owner` then names the owner."""

    level: str
    device: int
    file: Optional[str]
    line: Optional[int]
    function: Optional[str]
    bytes: int
    blocks: int
    owner: str


class Snapshot(List[LiveLine]):
    """A list of `LiveLine`; for each level and device, the largest first."""

    def total(self, level: str = "tensor", device: DeviceLike = 0) -> int:
        """Live bytes at a level of a device: the figure of `gpumem.counters`, unless memory changes in between."""
        of = ordinal(device)
        return sum(row.bytes for row in self if (row.level, row.device) == (level, of))

    def to_frame(self) -> Any:
        """The same as a pandas DataFrame; needs pandas."""
        try:
            import pandas
        except ImportError:
            raise ImportError(
                "to_frame() needs pandas, which is not installed: install it, or use the rows as they are"
            ) from None
        return pandas.DataFrame(list(self), columns=list(LiveLine._fields))


def _analyzer() -> str:
    """gpumem-analyze: where GPUMEM_ANALYZE says, beside the library, or on PATH."""
    told = os.environ.get("GPUMEM_ANALYZE")
    if told:
        return told
    library = _library.library_path()
    if library is not None:
        beside = library.parent / ANALYZER
        if os.access(beside, os.X_OK):
            return str(beside)
    try:
        return str(_files.analyzer())
    except _files.Missing as missing:
        raise FileNotFoundError(f"{missing}: say where it is in GPUMEM_ANALYZE") from None


def _lines(analyzer: str, report: Path, level: str) -> Sequence[Dict[str, Any]]:
    """The rows that `gpumem-analyze lines` gives of a level as it is now."""
    # The analyzer is not the program: nothing of it is to be recorded.
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    command = [analyzer, "lines", "--at", "end", "--level", level, "--format", "json", str(report)]
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    # 3: the analyzer has told on stderr what is missing, and the rows are those that are there.
    if done.returncode not in (0, 3) or not done.stdout.strip():
        said = done.stderr.decode("utf-8", "replace").strip()
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {said}")
    rows = _analysis.found(done.stdout)
    if not isinstance(rows, list):
        raise RuntimeError(f"{' '.join(command)} printed no list of lines")
    return rows


def snapshot() -> Snapshot:
    """The live memory of all devices by the line of code that owns it, at the levels of tensors, the driver and
    pinned host memory. Empty if the process is not recorded. It reads the capture of this process, which takes some
    tens of milliseconds, and more for longer runs."""
    found = Snapshot()
    report = _library.report_path()
    if report is None:
        return found
    analyzer = _analyzer()
    for level in _LEVELS:
        for row in _lines(analyzer, report, level):
            found.append(
                LiveLine(
                    level,
                    int(row["device"]),
                    row.get("file"),
                    row.get("line"),
                    row.get("function"),
                    int(row["bytes"]),
                    int(row["blocks"]),
                    str(row.get("owner") or ""),
                )
            )
    return found
