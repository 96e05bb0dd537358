"""A line on the terminal that says what is being done, if there is a terminal."""

from __future__ import annotations

import sys


class Progress:
    def __init__(self) -> None:
        self._shown, self._said = sys.stderr.isatty(), False

    def say(self, what: str) -> None:
        if self._shown:
            self._said = True
            sys.stderr.write(f"\r\x1b[K{what:.78}")
            sys.stderr.flush()

    def end(self) -> None:
        if self._said:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
