"""A thread that looks at gauges every millisecond, for want of better: it can miss what is short.

While a figure rises to new heights the thread looks without a pause, because memory is often freed right after the
last of it is taken. It runs only while somebody's gauge is open, and is the last resort of `_meter`, which says so."""

import atexit
import os
import threading
import time
from typing import Callable, List, Optional

__all__ = ["Gauge"]

_PERIOD_SECONDS = 0.001
# For the thread's start and end. To close a gauge takes no lock: garbage collection does so anywhere, also while the
# interpreter ends and its other threads stand still for ever.
_lock = threading.Lock()
_open: List["Gauge"] = []
_ends = threading.Event()
_thread: Optional[threading.Thread] = None

# How long after a rise the thread goes on without a pause: pages come in steps of up to 2 MiB.
_RISING_SECONDS = 0.003


class Gauge:
    """The greatest value that was seen of a figure since `reset`."""

    def __init__(self, read: Callable[[], int]) -> None:
        global _thread
        self._read = read
        self.peak = read()
        with _lock:
            _open.append(self)
            if _thread is None and not _ends.is_set():
                _thread = threading.Thread(target=_watch, name="gpumem-sampler", daemon=True)
                _thread.start()

    def look(self) -> int:
        """The value now."""
        value = self._read()
        if value > self.peak:
            self.peak = value
        return value

    def reset(self) -> None:
        self.peak = self._read()

    def close(self) -> None:
        try:
            _open.remove(self)
        except ValueError:
            pass


def _forget_parents() -> None:
    """A forked child has the parent's gauges, and no thread."""
    global _lock, _thread
    _lock, _thread = threading.Lock(), None
    _open.clear()


os.register_at_fork(after_in_child=_forget_parents)


@atexit.register
def _end() -> None:
    """The interpreter's end would stop the thread wherever it is."""
    _ends.set()
    thread = _thread
    if thread is not None:
        thread.join(1)


def _watch() -> None:
    global _thread
    rising_until = 0.0
    while True:
        with _lock:
            if not _open or _ends.is_set():
                _thread = None
                return
            gauges = list(_open)
        for gauge in gauges:
            before = gauge.peak
            gauge.look()
            if gauge.peak > before:
                rising_until = time.monotonic() + _RISING_SECONDS
        time.sleep(0 if time.monotonic() < rising_until else _PERIOD_SECONDS)
