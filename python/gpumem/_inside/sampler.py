"""A thread that reads gauges every millisecond, for programs without the recorder. It can miss short peaks.

While a figure reaches new peaks the thread reads without a pause, because memory is often freed right after the last
of it is allocated. It runs only while a gauge is open. `meter` prints a warning when it uses the sampler."""

import atexit
import os
import threading
import time
from typing import Callable, List, Optional

_PERIOD_SECONDS = 0.001
# For the thread's start and end. Closing a gauge takes no lock: garbage collection may close it anywhere, also while
# the interpreter ends and other threads no longer run.
_lock = threading.Lock()
_open: List["Gauge"] = []
_ends = threading.Event()
_thread: Optional[threading.Thread] = None

# How long the thread continues without a pause after a rise: pages are allocated in steps of up to 2 MiB.
_RISING_SECONDS = 0.003


class Gauge:
    """The highest value of a figure that was read since `reset`."""

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
        """Reads the value now."""
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
    """A forked child has the parent's gauges, but not its thread."""
    global _lock, _thread
    _lock, _thread = threading.Lock(), None
    _open.clear()


os.register_at_fork(after_in_child=_forget_parents)


@atexit.register
def _end() -> None:
    """Otherwise the interpreter's end would stop the thread at any point."""
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
