"""Code that runs inside a planned program: parts that are installed when PyTorch has been imported.

The planner starts the program with `environment(parts)`. Below it, `first/sitecustomize.py` loads this package as
`_gpumem_plan` once PyTorch is imported, and `install` runs the parts that GPUMEM_PLAN_PARTS names: each is a module here with a
function `install(torch)`."""

from __future__ import annotations

import os
import sys
from typing import Any, Dict, Iterable, Mapping, Optional, Sequence

FIRST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "first")
PARTS = "GPUMEM_PLAN_PARTS"
# Options of Python that take an argument, which may be the next word.
_WITH_ARGUMENT = "XW"


def environment(parts: Iterable[str], before: Optional[Mapping[str, str]] = None) -> Dict[str, str]:
    """The environment `before` (this process's by default) with the variables for these parts."""
    result = dict(os.environ if before is None else before)
    others = result.get("PYTHONPATH", "")
    # An empty entry would mean the working directory.
    result["PYTHONPATH"] = f"{FIRST}:{others}" if others else FIRST
    result[PARTS] = ",".join(parts)
    return result


def cannot(command: Sequence[str]) -> Optional[str]:
    """Why the parts cannot be installed in this command's Python, in one line; `None` if they can."""
    if os.pathsep in FIRST:
        return f"{FIRST} has a colon in its name, so it cannot be in PYTHONPATH"
    if not os.path.basename(command[0]).startswith("python"):
        return None
    words = iter(command[1:])
    for word in words:
        if not word.startswith("-") or word.startswith("--") or word == "-":
            break
        for at, letter in enumerate(word[1:], 2):
            if letter in "ISE":
                why = "does not import sitecustomize" if letter == "S" else "ignores PYTHONPATH"
                return f"python -{letter} {why}: the plan has no part in the program"
            if letter in "mc":
                return None
            if letter in _WITH_ARGUMENT:
                if at == len(word):
                    next(words, None)
                break
    return None


def install(torch: Any) -> None:
    """Installs the parts that the environment lists, in its order."""
    from importlib import import_module

    for part in os.environ.get(PARTS, "").split(","):
        if part:
            try:
                module = import_module(f"{__name__}.{part}")
            except ModuleNotFoundError as error:
                if error.name != f"{__name__}.{part}":
                    raise
                sys.stderr.write(f"gpumem: {PARTS} names {part}, which is no part of a plan\n")
            else:
                module.install(torch)
