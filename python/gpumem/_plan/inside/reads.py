"""Reads of device values by the program, and the values that it gets.

An unknown value is reported with its line, replaced if the user assumed another one, and limited if a loop waits for
it."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from .places import NOWHERE, Place, here

ASSUME = "GPUMEM_PLAN_ASSUME"
LOOP_MOST = "GPUMEM_PLAN_LOOP_MOST"
_DEFAULT_LOOP_MOST = 10_000
# A line whose values change may be read this many times as often.
_CHANGING = 100

# Called for each read: place, operation, use, whether it was known, whether it was assumed, the value.
Listener = Callable[[Place, str, str, bool, bool, Any], None]


class EndlessLoop(RuntimeError):
    """A line waits for a value that only a real device computes."""


class _Line:
    """How often a line's unknown values were read."""

    __slots__ = ("in_a_row", "in_all", "last")

    def __init__(self) -> None:
        self.in_a_row = self.in_all = 0
        self.last: Any = None


class Reads:
    """The reads of this process."""

    def __init__(self, torch: Any):
        self.listener: Optional[Listener] = None
        self._assumed = assumptions(os.environ.get(ASSUME, ""))
        self._most = _number(LOOP_MOST, _DEFAULT_LOOP_MOST)
        self._allocated = getattr(torch.cuda, "memory_allocated", lambda: 0)
        self._most_allocated = 0
        self._lines: Dict[Tuple[Place, str], _Line] = {}
        self._lock = threading.Lock()
        self._kernel = threading.local()
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        # Another thread may have held it.
        self._lock = threading.Lock()

    def value(self, operation: str, known: bool, value: Any) -> Any:
        """The value that the program gets for a number; `None` stands for a read that is not a single number."""
        return self._read(operation, "value", known, value)

    def size(self, operation: str, known: bool, count: Optional[int]) -> Any:
        """The size that the program gets for a number of elements that the device counted."""
        assumed = self._read(operation, "size", known, count)
        return max(0, int(assumed)) if count is not None else None

    @contextmanager
    def of_a_kernel(self, count: int) -> Iterator[None]:
        """Reads within this context belong to a library's kernel, not to a line of the program: sizes are `count`."""
        outer = getattr(self._kernel, "count", None)
        self._kernel.count = count
        try:
            yield
        finally:
            self._kernel.count = outer

    def _read(self, operation: str, use: str, known: bool, value: Any) -> Any:
        count = getattr(self._kernel, "count", None)
        if count is not None:
            return count if use == "size" else value
        place = here()
        given = self._assumption(place)
        assumed = given is not None
        if assumed:
            value = _like(value, given)
        if self.listener is not None:
            self.listener(place, operation, use, known, assumed, value)
        if not known and not assumed:
            self._bound(place, operation, value)
        return value

    def _assumption(self, place: Place) -> Any:
        for file, line, value in self._assumed:
            if line == place.line and (place.file == file or place.file.endswith("/" + file)):
                return value
        return None

    def _bound(self, place: Place, operation: str, value: Any) -> None:
        """Stops a loop on data: one line read its unknown value repeatedly, and no observable state changed, neither a
        value that is read nor the peak of the allocated memory."""
        with self._lock:
            line = self._lines.setdefault((place, operation), _Line())
            line.in_all += 1
            allocated = self._allocated()
            if value != line.last or allocated > self._most_allocated:
                self._most_allocated = max(allocated, self._most_allocated)
                line.last = value
                for other in self._lines.values():
                    other.in_a_row = 0
            line.in_a_row += 1
            endless = line.in_a_row > self._most or line.in_all > self._most * _CHANGING
        if endless:
            where = f"{os.path.basename(place.file)}:{place.line}" if place is not NOWHERE else "a thread of autograd"
            raise EndlessLoop(
                f"gpumem plan: {where} read a value that the simulator does not know ({operation}) "
                f"{line.in_all} times, now {value!r}, so a loop on this value would not end. "
                f"{ASSUME}={where}=VALUE sets the value for that line; {LOOP_MOST} (now {self._most}) allows more reads"
            )


def assumptions(text: str) -> List[Tuple[str, int, Any]]:
    """Parses GPUMEM_PLAN_ASSUME: `train.py:88=1024,data.py:7=true`. Invalid parts are reported and left out."""
    result = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        where, _, value = part.rpartition("=")
        file, _, line = where.rpartition(":")
        number = _literal(value.strip())
        if file and line.isdigit() and number is not None:
            result.append((file, int(line), number))
        else:
            sys.stderr.write(f"gpumem: {ASSUME}: {part} is not FILE:LINE=NUMBER\n")
    return result


def _literal(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return None


def _like(value: Any, given: Any) -> Any:
    """The assumed value in the type of the value that it replaces."""
    return type(value)(given) if isinstance(value, (bool, int, float, complex)) else given


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    if not text:
        return default
    if text.isdigit() and int(text) > 0:
        return int(text)
    sys.stderr.write(f"gpumem: {name}={text} is no positive number; {default} is used\n")
    return default
