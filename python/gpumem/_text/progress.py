"""Shows the progress on one line of the terminal, if there is a terminal."""

from __future__ import annotations

import sys
import time
from typing import Callable


class Progress:
    def __init__(self) -> None:
        self._shown, self._said = sys.stderr.isatty(), False

    def say(self, what: str) -> None:
        if self._shown:
            self._said = True
            sys.stderr.write(f"\r\x1b[K{what:.78}")
            sys.stderr.flush()

    def told(self, what: str) -> Callable[[float], None]:
        """A function that takes the completed fraction and shows it from time to
        time."""
        last = 0.0

        def show(of: float) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last > 0.1:
                last = now
                self.say(f"{what}: {of:4.0%}")

        return show

    def end(self) -> None:
        if self._said:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
