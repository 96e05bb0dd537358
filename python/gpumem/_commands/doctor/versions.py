"""Compares the versions of the interpreter and PyTorch with those that the recorder supports."""

import re
from typing import Any, Dict, Iterator, Optional, Tuple

from .check import OK, WARNING, Check

# Interpreters whose Python stacks the recorder reads, as in python-frames/src/rows.rs.
OLDEST_PYTHON, NEWEST_PYTHON = (3, 8), (3, 14)
# The first and last release whose backward is attributed to forward lines (docs/measured/backward.md).
OLDEST_TORCH, NEWEST_TORCH = (1, 12), (2, 15)

_STACKS = "Everything is recorded except Python stacks; native stacks remain."


def checks(said: Dict[str, Any]) -> Iterator[Check]:
    """Checks of an interpreter's output (preload.INTERPRETER)."""
    yield python(said)
    yield torch(said.get("torch"))


def python(said: Dict[str, Any]) -> Check:
    name, version = said["implementation"], said["version"]
    found = f"{name} {version}, {said['executable']}"
    if name != "CPython":
        return Check("Python", WARNING, f"{found}: not CPython", _STACKS)
    if said["free_threaded"]:
        return Check("Python", WARNING, f"{found}: free-threaded", f"{_STACKS} Use a build with the GIL to have both.")
    known = "{}.{} to {}.{}".format(*OLDEST_PYTHON, *NEWEST_PYTHON)
    if not OLDEST_PYTHON <= tuple(said["minor"]) <= NEWEST_PYTHON or said["level"] in ("alpha", "beta"):
        return Check("Python", WARNING, f"{found}: not a release of {known}", f"{_STACKS} Use CPython {known} to have both.")
    return Check("Python", OK, found)


def torch(said: Optional[Dict[str, Any]]) -> Check:
    """`said` is the content of torch/version.py; None if PyTorch is not installed."""
    if said is None:
        return Check("PyTorch", OK, "not installed in this Python; any CUDA program can be recorded")
    version, cuda = said["version"], said["cuda"]
    if not cuda:
        return Check(
            "PyTorch", WARNING, f"{version}, built without CUDA: it makes no CUDA calls, so nothing is recorded",
            "Install a build of PyTorch for CUDA.",
        )  # fmt: skip
    found = f"{version}, built for CUDA {cuda}"
    release = _release(version)
    if release is None or not OLDEST_TORCH <= release <= NEWEST_TORCH:
        known = "{}.{} to {}.{}".format(*OLDEST_TORCH, *NEWEST_TORCH)
        return Check(
            "PyTorch", WARNING, f"{found}: not among {known}",
            "Memory is recorded exactly. What backward allocates may have no forward line; the report shows whether it has.",
        )  # fmt: skip
    return Check("PyTorch", OK, found)


def _release(version: str) -> Optional[Tuple[int, int]]:
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else None
