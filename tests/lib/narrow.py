"""Runs programs on a terminal of a given width and measures their lines."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import unicodedata

import harness
from waiting import WATCHDOG

COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def on_terminal(command, *, columns=80, env=None, cwd=None):
    """Exit code and all text of a command whose input is empty and whose output is a terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {**harness.clean_environment(), "TERM": "xterm", "LANG": "C.UTF-8", **(env or {})}
    process = subprocess.Popen(
        [str(part) for part in command], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=environment, cwd=cwd
    )
    os.close(theirs)
    text = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:  # EIO: the other end is closed
            break
        if not part:
            break
        text += part
    os.close(ours)
    return process.wait(timeout=WATCHDOG), text.decode().replace("\r\n", "\n")


def plain(text):
    return COLOURS.sub("", text)


def width(line):
    """Columns that a line takes."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in plain(line))


def wider(text, columns):
    """The lines that do not fit, but for a single word, as a path: it stays whole, so that it can be copied."""
    return [line for line in plain(text).splitlines() if width(line) > columns and len(line.split()) > 1]
