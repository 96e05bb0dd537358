"""The doctor's lines for people: 80 columns, plain text."""

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
    """A block for each check, and a last line that says whether recording works."""
    lines: List[str] = []
    for check in checks:
        lines += block(check)
    return "\n".join([*lines, "", verdict(checks)])


def block(check: Check) -> Iterator[str]:
    """The lines of a check: its status and name beside the first, its advice last."""
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
    """The home folder as shells write it: paths below it are long."""
    home = os.path.expanduser("~").rstrip("/")
    return re.sub(rf"(?<![^\s:]){re.escape(home)}/", "~/", text) if home else text


def _filled(text: str, mark: str) -> List[str]:
    """Lines of the width that is left. A word that is longer stays whole, so that a path can be copied."""
    wrap = textwrap.TextWrapper(
        WIDTH - len(_INDENT), initial_indent=mark, subsequent_indent=" " * len(mark), break_on_hyphens=False, break_long_words=False
    )
    return wrap.wrap(text) or [""]


def _indented(line: str) -> str:
    """A line below a check's first: further to the left where it is too long, and broken where even that is no help."""
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


def printable(text: str) -> str:
    """The same in what stdout can show: names of files may have anything in them."""
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
