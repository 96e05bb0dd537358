"""The doctor's output: 80 columns, plain text."""

import os
import re
import sys
import textwrap
from typing import Iterator, List, Sequence

from .check import ERROR, WARNING, Check

WIDTH = 80
_STATUS, _NAME = 9, 12
_INDENT = " " * (_STATUS + _NAME)


def page(checks: Sequence[Check]) -> str:
    """A block for each check, and a last line with the result."""
    lines: List[str] = []
    for check in checks:
        lines += block(check)
    return "\n".join([*lines, "", verdict(checks)])


def block(check: Check) -> Iterator[str]:
    """The lines of a check: its status and name on the first line, its advice last."""
    found = _filled(_short(check.found), "")
    head = f"{check.status:<{_STATUS}}{check.name:<{_NAME}}"
    if len(head + found[0]) <= WIDTH:
        yield head + found.pop(0)
    else:
        yield head.rstrip()
    yield from map(_indented, found)
    if check.advice:
        yield from map(_indented, _filled(_short(check.advice), "-> "))


def _short(text: str) -> str:
    """What stdout can show of it, and the home folder as `~`, because such paths are long."""
    home, text = _printable(os.path.expanduser("~").rstrip("/")), _printable(text)
    return re.sub(rf"(?<![^\s:]){re.escape(home)}/", "~/", text) if home else text


def _filled(text: str, mark: str) -> List[str]:
    """Lines that fit the remaining width. A longer word is not broken, so that paths can be copied."""
    wrap = textwrap.TextWrapper(
        WIDTH - len(_INDENT), initial_indent=mark, subsequent_indent=" " * len(mark), break_on_hyphens=False, break_long_words=False
    )
    return wrap.wrap(text) or [""]


def _indented(line: str) -> str:
    """A continuation line of a check: less indented if it is too long, and broken if that is not enough."""
    room = max(WIDTH - len(line), 0)
    if room:
        return " " * min(room, len(_INDENT)) + line
    return "\n".join(line[place : place + WIDTH] for place in range(0, len(line), WIDTH))


def verdict(checks: Sequence[Check]) -> str:
    errors = sum(check.status == ERROR for check in checks)
    warnings = sum(check.status == WARNING for check in checks)
    noted = f"{warnings} warning{'' if warnings == 1 else 's'}"
    if errors:
        return f"Recording does not work: {errors} error{'' if errors == 1 else 's'}, {noted}."
    return f"Recording works: {noted}." if warnings else "Recording works."


def _printable(text: str) -> str:
    """The text with characters that stdout can encode: file names may contain any others. They get longer, so lines are
    wrapped after this."""
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
