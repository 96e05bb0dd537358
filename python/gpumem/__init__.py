"""gpumem inside the recorded program: exact counters and scopes while the program runs; and captures, read from Python.

    import gpumem

    with gpumem.scope("forward") as s:
        loss = model(batch)
    print(s.used, s.peak)          # bytes of tensors: added, and the peak above the start

    print(gpumem.counters(0).tensor.live_bytes)

    with gpumem.open("report.bin") as capture:
        print(capture.summary().device(0).tensor.peak_bytes)

The figures are exact. Reading them needs no synchronization and changes no figure. They come from the library in this
process, if it was preloaded:
`LD_PRELOAD=target/release/libgpumem.so python train.py`. Without the library, all functions except `holders` still
work: `api_version()` is None, counters are zero, and scopes have samples of PyTorch's counters."""

from ._inside.coords import coords, watch as _watch_meshes
from ._inside.counters import Counters, DeviceCounters, counters
from ._inside.holders import Holder, Holders, holders
from ._inside.library import api_version, mark, read_card, recording, report_path
from ._inside.limit import limit
from ._inside.modules import watch as _watch_modules
from ._inside.moments import step
from ._inside.scopes import DeviceFigures, Figures, Scope, scope
from ._inside.snapshot import LiveLine, Snapshot, snapshot
from ._inside.tensors import watch as _watch_tensors
from ._reading.analysis import Unreadable
from ._reading.capture import Capture, open
from ._reading.events import Events, PartialCapture
from ._reading.results import CategoryRow, DeviceSummary, LevelFigures, LineRow, ModuleRow, Rows, Summary

__all__ = [
    "Capture",
    "CategoryRow",
    "Counters",
    "DeviceCounters",
    "DeviceFigures",
    "DeviceSummary",
    "Events",
    "Figures",
    "Holder",
    "Holders",
    "LevelFigures",
    "LineRow",
    "LiveLine",
    "ModuleRow",
    "PartialCapture",
    "Rows",
    "Scope",
    "Snapshot",
    "Summary",
    "Unreadable",
    "api_version",
    "coords",
    "counters",
    "holders",
    "limit",
    "mark",
    "open",
    "read_card",
    "recording",
    "report_path",
    "scope",
    "snapshot",
    "step",
]


_watch_tensors(_watch_modules())
_watch_meshes()


def __getattr__(name: str) -> str:
    if name == "__version__":
        from ._machine.installed import version

        return version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_ipython_extension(shell: object) -> None:
    """Called by `%load_ext gpumem`."""
    from .ipython import load

    load(shell)
