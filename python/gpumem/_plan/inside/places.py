"""Finds the line of the program's own code that runs."""

from __future__ import annotations

import os
import re
import sys
from functools import lru_cache
from types import FrameType
from typing import NamedTuple, Optional

_INSIDE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_LIBRARY = re.compile(r"/(?:site-packages|dist-packages)/|/torchinductor_|/\.triton/|/lib(?:64)?/python[0-9.]+(?:/|t/|\.zip/)")
_MADE_UP = ("<stdin>", "<string>", "<ipython-input")


class Place(NamedTuple):
    """A line of code."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


NOWHERE = Place("", 0, "")


@lru_cache(maxsize=None)
def is_own_code(file: str) -> bool:
    """Whether a file is the program's own: not of an installed package, of Python, or generated. The rule is that
    of `gpumem-analyze lines`."""
    if file.startswith("<"):
        return file.startswith(_MADE_UP)
    return not _LIBRARY.search(file) and not file.startswith(_INSIDE)


def here() -> Place:
    """The newest line of the program's own code on this thread; without one, the newest outside of PyTorch and of
    this folder, and `NOWHERE` on a thread that runs no other Python (autograd's)."""
    other: Optional[Place] = None
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if is_own_code(code.co_filename):
            return _place(frame)
        if other is None and "/torch/" not in code.co_filename and not code.co_filename.startswith((_INSIDE, "<")):
            other = _place(frame)
        frame = frame.f_back
    return other or NOWHERE


def _place(frame: FrameType) -> Place:
    code = frame.f_code
    return Place(os.path.abspath(code.co_filename) if code.co_filename[:1] != "<" else code.co_filename,
                 frame.f_lineno, getattr(code, "co_qualname", code.co_name))
