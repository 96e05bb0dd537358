"""The report that `gpumem run` prints on stderr when the program has ended: for one capture the whole report,
for several captures (one per rank) a line for each GPU that they used."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence

from .._machine import driver
from .._text import sizes
from .._text.messages import aligned, say, short
from . import analysis


class Capture(NamedTuple):
    """A capture and the result of `gpumem-analyze report --all`. Without a result, `summary` is None and `why` is
    the reason."""

    path: Path
    summary: Optional[Dict[str, Any]]
    why: str

    @property
    def rank(self) -> Optional[int]:
        return self.summary["process"]["rank"] if self.summary else None


def tell(captures: Sequence[Path], analyzer: Optional[Path]) -> None:
    """Reports the captures. They stay, even if the report fails."""
    gone = [path for path in captures if not path.exists()]
    for path in gone:
        say(f"{short(path)} was deleted while the program ran, so there is no capture")
    captures = [path for path in captures if path not in gone]
    if gone and not captures:
        return
    if not captures:
        say(f"nothing was recorded: {_why_nothing()}")
    elif analyzer is None:
        say("gpumem-analyze was not found; the captures: " + "  ".join(map(short, captures)))
    elif len(captures) == 1:
        # On stderr, too: stdout is reserved for the program.
        sys.stderr.flush()
        subprocess.run([str(analyzer), short(captures[0])], stdout=sys.stderr, check=False)
    else:
        _tell_several([_read(path, analyzer) for path in captures], analyzer)


def _why_nothing() -> str:
    if not driver.is_installed():
        return "there is no CUDA driver on this machine (libcuda.so.1 was not found)"
    return (
        "no process with the library made a CUDA call (static and setuid programs, and programs in other containers, start without it)"
    )


def _read(path: Path, analyzer: Path) -> Capture:
    try:
        return Capture(path, analysis.ask(analyzer, path, "report", ["--all"]).body, "")
    except analysis.Unreadable as error:
        return Capture(path, None, str(error))


def _tell_several(captures: List[Capture], analyzer: Path) -> None:
    # A stable sort: captures without a rank stay in the order in which they began.
    captures.sort(key=lambda capture: (capture.rank is None, capture.rank or 0))
    say(f"{len(captures)} processes recorded a capture each")
    heads = ["rank", "pid", "GPU", "peak of tensors", "of CUDA's memory", "of the card's", "account", "capture"]
    for line in aligned([heads, *(row for capture in captures for row in _rows(capture))], left=(6, 7)):
        print(f"  {line}", file=sys.stderr)
    name = "gpumem-analyze" if shutil.which("gpumem-analyze") else str(analyzer)
    first, second = (short(capture.path) for capture in captures[:2])
    failed = [capture for capture in captures if capture.summary and capture.summary["out_of_memory_events"]]
    if failed:
        print(f"Allocations failed in {len(failed)} of them: {name} oom {short(failed[0].path)}", file=sys.stderr)
    print(f"The report of one: {name} {first}", file=sys.stderr)
    print(f"Compare them: {name} diff {first} {second}", file=sys.stderr)


def _rows(capture: Capture) -> Iterator[List[str]]:
    """A row for each GPU that the process used."""
    path = short(capture.path)
    if capture.summary is None:
        yield ["", "", "", "", "", "", capture.why, path]
        return
    process = capture.summary["process"]
    account = "exact" if capture.summary["exact"] else "PARTIAL"
    rank = "" if process["rank"] is None else str(process["rank"])
    for device in capture.summary["devices"]:
        levels = (device["tensor"], device["driver"], device["physical"])
        peaks = [_peak(level["peak_bytes"]) for level in levels]
        yield [rank, str(process["pid"]), str(device["ordinal"]), *peaks, account, path]
    if not capture.summary["devices"]:
        yield [rank, str(process["pid"]), "none", "", "", "", account, path]


def _peak(size: Optional[int]) -> str:
    """The card's memory is unknown if no memory of this process was seen on it."""
    return "unknown" if size is None else sizes.text(size)
