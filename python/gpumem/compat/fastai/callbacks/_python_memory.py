"""Memory of Python's allocator since a mark, as counted by `tracemalloc`."""

import tracemalloc
from typing import Tuple

__all__ = ["PythonMemory"]


class PythonMemory:
    """Counts from `start` to `stop`. If the program already traces, its tracing does not change."""

    def __init__(self) -> None:
        self._ours = False
        self._start = self._peak_before = 0

    def start(self) -> None:
        self.stop()
        if not tracemalloc.is_tracing():
            tracemalloc.start()
            self._ours = True
        self._start, self._peak_before = (0, 0) if self._ours else tracemalloc.get_traced_memory()

    def read(self) -> Tuple[int, int]:
        """Bytes used, and their peak."""
        live, peak = tracemalloc.get_traced_memory()
        used = live - self._start
        known = peak - self._start if peak > self._peak_before else 0
        return used, max(used, known, 0)

    def stop(self) -> None:
        if self._ours:
            tracemalloc.stop()
            self._ours = False
