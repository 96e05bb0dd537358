"""The part `lines`: records where the program reads device data, in the file that GPUMEM_PLAN_LINES names.

There is one record for each file, line and operation: the count, whether the value was known, and the first value."""

from __future__ import annotations

import os
import platform
import sys
import threading
from typing import Any, Dict, List, Tuple

from . import mode
from .places import Place
from .record_file import RecordFile

FILE = "GPUMEM_PLAN_LINES"
# Distinct reads of a process that have separate records; the others share one.
MOST = 4096


class Lines:
    """Counts reads and updates the file."""

    def __init__(self, path: str, process: Dict[str, Any]):
        self._file = RecordFile(path)
        self._process = process
        self._reads: Dict[Tuple[Any, ...], Tuple[Dict[str, Any], Dict[str, int]]] = {}
        self._others = 0
        self._lock = threading.Lock()
        self._begin()
        os.register_at_fork(after_in_child=self._forked)

    def __call__(self, place: Place, operation: str, use: str, known: bool, assumed: bool, value: Any) -> None:
        key = (place.file, place.line, operation, use)
        with self._lock:
            if not self._begun:
                self._begin()
            entry = self._reads.get(key)
            if entry is None:
                if len(self._reads) >= MOST:
                    self._others += 1
                    self._file.put("others", {"kind": "others", "pid": os.getpid()}, {"count": self._others})
                    return
                first = value if isinstance(value, (bool, int, float, str)) else None
                if isinstance(first, float) and (first != first or first in (float("inf"), float("-inf"))):
                    # JSON has no such numbers.
                    first = str(first)
                entry = self._reads[key] = (
                    {"kind": "read", "pid": os.getpid(), "file": place.file, "line": place.line, "function": place.function,
                     "op": operation, "use": use, "first": first, "first_known": known},
                    {"count": 0, "known": 0, "unknown": 0, "assumed": 0},
                )  # fmt: skip
            record, counts = entry
            counts["count"] += 1
            counts["assumed" if assumed else "known" if known else "unknown"] += 1
            self._file.put(key, record, counts)

    def _begin(self) -> None:
        """Records that a process is observed."""
        self._file.put("process", {"kind": "process", "pid": os.getpid(), **self._process}, {})
        self._begun = True

    def _forked(self) -> None:
        self._reads.clear()
        self._others, self._begun = 0, False
        self._lock = threading.Lock()


def install(torch: Any) -> None:
    """Records reads in the file."""
    path = os.environ.get(FILE)
    if not path:
        sys.stderr.write(f"gpumem: the part lines writes to the file that {FILE} names, which is not set\n")
        return
    installed = mode.ensure(torch)
    parts: List[str] = os.environ.get("GPUMEM_PLAN_PARTS", "").split(",")
    facts = {
        "torch": torch.__version__, "python": platform.python_version(), "parts": parts, "covered": installed is not None,
        "memory_differs": installed.memory_differs if installed is not None else None,
    }  # fmt: skip
    lines = Lines(path, facts)
    if installed is not None:
        installed.reads.listener = lines
