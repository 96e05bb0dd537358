"""A terminal for a program: the screen it shows, the keys it gets, its size."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import harness
from waiting import WATCHDOG

# Sequences that move the cursor or clear; all others change only the appearance of text.
SEQUENCE = re.compile(rb"\x1b\[([0-9;?]*)([A-Za-z])|\x1b[=>78]|\x1b\([A-Z0-9]")


class Screen:
    """`command` on a terminal of that size."""

    def __init__(self, command, *, columns=80, rows=24, env=None, cwd=None):
        self.ours, theirs = pty.openpty()
        self.columns, self.rows, self.pending = columns, rows, b""
        self.is_being_drawn = False
        self._set_size()
        environment = {**harness.clean_environment(), "TERM": "xterm", "LANG": "C.UTF-8", **(env or {})}
        self.process = subprocess.Popen(
            [str(part) for part in command], stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=cwd,
            start_new_session=True, preexec_fn=self._takes_terminal,
        )
        os.close(theirs)
        self._clear()

    @staticmethod
    def _takes_terminal():
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        # nohup ignores it, and programs would inherit that.
        signal.signal(signal.SIGHUP, signal.SIG_DFL)

    def _set_size(self):
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", self.rows, self.columns, 0, 0))

    def _clear(self):
        self.cells, self.at = {}, (0, 0)

    def resize(self, columns, rows):
        self.columns, self.rows = columns, rows
        self._set_size()

    def press(self, keys):
        os.write(self.ours, keys.encode())

    def lines(self):
        rows = [[self.cells.get((row, column), " ") for column in range(self.columns)] for row in range(self.rows)]
        return ["".join(row).rstrip() for row in rows]

    def text(self):
        return "\n".join(self.lines())

    def wait(self, wanted):
        """Reads until the screen is as `wanted` (a text on it, or a function of its text); the text."""
        is_wanted = wanted if callable(wanted) else lambda text: wanted in text
        end = time.monotonic() + WATCHDOG
        while self.is_being_drawn or not is_wanted(self.text()):
            assert time.monotonic() < end, f"not so within {WATCHDOG} s: {wanted}\n{self.text()}"
            self._read()
        return self.text()

    def _read(self):
        """Takes what the program has written; waits a moment for it."""
        if not select.select([self.ours], [], [], 0.1)[0]:
            return
        try:
            self._take(os.read(self.ours, 65536))
        except OSError:  # EIO: the terminal is closed
            time.sleep(0.1)

    def _take(self, said):
        said = self.pending + said
        cut = said.rfind(b"\x1b", max(0, len(said) - 16))
        whole = said if cut < 0 or SEQUENCE.match(said, cut) else said[:cut]
        self.pending = said[len(whole):]
        at = 0
        for found in SEQUENCE.finditer(whole):
            self._put(whole[at : found.start()])
            at = found.end()
            numbers, letter = found.group(1) or b"", found.group(2) or b""
            if letter == b"H":
                row, _, column = numbers.decode().partition(";")
                self.at = (int(row or 1) - 1, int(column or 1) - 1)
            elif letter == b"J":
                self._clear()
            elif numbers == b"?2026":  # between these nothing is to be shown
                self.is_being_drawn = letter == b"h"
        self._put(whole[at:])

    def _put(self, text):
        for letter in text.decode(errors="replace"):
            row, column = self.at
            if letter == "\r":
                self.at = (row, 0)
            elif letter == "\n":
                self.at = (row + 1, column)
            elif letter >= " ":
                self.cells[self.at] = letter
                self.at = (row, column + 1)

    def hang_up(self):
        os.close(self.ours)
        self.ours = None

    def end(self):
        """The exit code, once it has ended."""
        end = time.monotonic() + WATCHDOG
        while self.ours is not None and self.process.poll() is None and time.monotonic() < end:
            self._read()
        return self.process.wait(timeout=max(1, end - time.monotonic()))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        if self.ours is not None:
            os.close(self.ours)
