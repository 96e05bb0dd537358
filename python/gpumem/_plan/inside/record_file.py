"""Records as lines of JSON in one file for all processes of a plan, which are whole at any moment.

A record has one width for good, and what changes are numbers with room to grow, so it is written again in its own place with one call.
Whatever ends the process, the file has what was so far. It is opened for each write: a descriptor that stays open could be
closed and used again by the program."""

from __future__ import annotations

import fcntl
import json
import os
from typing import Any, Dict, Mapping, Optional

# Room of a number that may grow.
_DIGITS = 20


class RecordFile:
    """The file, and where this process's records are in it."""

    def __init__(self, path: str):
        self._path = os.path.abspath(path)
        self._places: Dict[Any, int] = {}
        os.register_at_fork(after_in_child=self._places.clear)

    def put(self, key: Any, record: Mapping[str, Any], counts: Mapping[str, int]) -> bool:
        """Writes the record `key`, at the end if it is new; whether that worked. What is in `record` stays as it is."""
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
