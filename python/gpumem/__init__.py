"""gpumem inside the recorded program: exact counters and scopes while the program runs.

    import gpumem

    with gpumem.scope("forward") as s:
        loss = model(batch)
    print(s.used, s.peak)          # bytes of tensors: added, and the peak above the start

    print(gpumem.counters(0).tensor.live_bytes)

The figures are exact. Reading them needs no synchronization and changes no figure. They come from the library in this
process, if it was preloaded:
`LD_PRELOAD=target/release/libgpumem.so python train.py`. Without the library, all functions still work:
`api_version()` is None, counters are zero, and scopes have samples of PyTorch's counters."""

from ._coords import coords
from ._coords import watch as _watch_meshes
from ._counters import Counters, DeviceCounters, counters
from ._framework_moments import step
from ._library import api_version, mark, read_card, recording, report_path
from ._limit import limit
from ._live import LiveLine, Snapshot, snapshot
from ._modules import watch as _watch_modules
from ._scopes import DeviceFigures, Figures, Scope, scope
from ._tensors import watch as _watch_tensors

__all__ = [
    "Counters",
    "DeviceCounters",
    "DeviceFigures",
    "Figures",
    "LiveLine",
    "Scope",
    "Snapshot",
    "api_version",
    "coords",
    "counters",
    "limit",
    "mark",
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
        from ._files import version

        return version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_ipython_extension(shell: object) -> None:
    """What `%load_ext gpumem` calls."""
    from .ipython import load

    load(shell)
