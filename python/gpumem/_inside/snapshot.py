"""Live memory by the line of code that owns it."""

import warnings
from typing import Any, List, NamedTuple, Optional, Tuple

from .._machine import installed
from .._machine.ordinals import DeviceLike, ordinal
from .._reading.capture import Capture, Level
from .._reading.events import PartialCapture
from .._reading.results import frame
from . import library

_LEVELS: Tuple[Level, ...] = ("tensor", "driver", "host")


class LiveLine(NamedTuple):
    """The memory that one line of code owns on one device at one level. `file`, `line` and `function` are None if no line is
    known."""

    level: str  #: "tensor", "driver" or "host".
    device: Optional[int]  #: The device's ordinal; None: pinned memory of no device.
    file: Optional[str]  #: The file's name.
    line: Optional[int]  #: The line's number.
    function: Optional[str]  #: The function's name.
    bytes: int  #: Live bytes.
    blocks: int  #: The number of blocks.
    owner: str  #: If no line is known: the library, or the class of autograd's node.


class Snapshot(List[LiveLine]):
    """A list of `LiveLine`; for each level and device, the largest first."""

    def total(self, level: str = "tensor", device: DeviceLike = 0) -> int:
        """Live bytes at a level of a device: the figure of `gpumem.counters`, unless memory changes in between."""
        of = ordinal(device)
        return sum(row.bytes for row in self if (row.level, row.device) == (level, of))

    def to_frame(self) -> Any:
        """The same as a pandas DataFrame. Raises ImportError without pandas."""
        return frame("to_frame()", self, LiveLine._fields)


def snapshot() -> Snapshot:
    """The live memory of all devices by the line of code that owns it, at the levels of tensors, the driver and
    pinned host memory. Empty if the process is not recorded. It reads the capture of this process, which takes some
    tens of milliseconds, and more for longer runs. Raises FileNotFoundError without gpumem-analyze, and `Unreadable` if it
    cannot read the capture."""
    found = Snapshot()
    report = library.report_path()
    if report is None:
        return found
    with Capture(report, installed.analyzer_or_error(library.library_path())) as capture, warnings.catch_warnings():
        # The process is still running, so its capture is always partial.
        warnings.simplefilter("ignore", PartialCapture)
        for level in _LEVELS:
            for row in capture.lines("end", level):
                owner = row.library or row.node or ""
                found.append(LiveLine(level, row.device, row.file, row.line, row.function, row.bytes, row.blocks, owner))
    return found
