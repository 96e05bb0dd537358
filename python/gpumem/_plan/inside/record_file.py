"""Records as lines of JSON in one file for all processes of a plan. The file is valid at any moment.

A record's width is constant: its counters have room to grow, so it is updated in place with one write. If the process
is killed, the file has the state until then. The file is opened for each write, because the program could close and
reuse a descriptor that stays open."""

from __future__ import annotations

import fcntl
import json
import os
from typing import Any, Dict, Mapping, Optional

# Digits of a counter.
_DIGITS = 20


class RecordFile:
    """The file, and the offsets of this process's records in it."""

    def __init__(self, path: str):
        self._path = os.path.abspath(path)
        self._places: Dict[Any, int] = {}
        os.register_at_fork(after_in_child=self._places.clear)

    def put(self, key: Any, record: Mapping[str, Any], counts: Mapping[str, int]) -> bool:
        """Writes the record `key`, at the end if it is new. Returns whether that worked. `record` must not change
        between calls."""
        fixed = json.dumps(record)[:-1]
        numbers = "".join(f', "{name}": {count:<{_DIGITS}d}' for name, count in counts.items())
        line = f"{fixed}{numbers}}}\n".encode()
        at: Optional[int] = self._places.get(key)
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError:
            return False
        try:
            if at is None:
                fcntl.lockf(descriptor, fcntl.LOCK_EX)
                at = self._places[key] = os.lseek(descriptor, 0, os.SEEK_END)
            return os.pwrite(descriptor, line, at) == len(line)
        except OSError:
            return False
        finally:
            os.close(descriptor)
