"""Budgets of tests in gpumem.toml, the file that `gpumem ci` reads (docs/commands/ci.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, NamedTuple, Optional

from .._text import sizes

NAME = "gpumem.toml"
LEVELS = ("tensor", "driver", "physical", "host")


class Budget(NamedTuple):
    """The limits of a test."""

    peak: int
    level: Optional[str]


class Wrong(Exception):
    """The file is invalid; the message is the reason."""


def of_tests(folder: Path) -> Dict[str, Budget]:
    """Budgets by test id, from the file in this folder or the nearest one above it."""
    for above in (folder, *folder.parents):
        path = above / NAME
        if path.is_file():
            return read(path)
    return {}


def of_test(budgets: Dict[str, Budget], test: str) -> Optional[Budget]:
    """A test's budget: for its id, or for its id without parameters."""
    return budgets.get(test) or budgets.get(test.partition("[")[0])


def read(path: Path) -> Dict[str, Budget]:
    """Budgets by test id. Other budgets are workloads of `gpumem ci`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Wrong(f"{path}: {error}") from None
    # Ids of tests contain ::, so a file without it needs no TOML parser.
    if "::" not in text:
        return {}
    toml = _toml()
    if toml is None:
        raise Wrong(f"{path} has budgets of tests: they are read with Python 3.11, or with tomli (pip install tomli)")
    try:
        found = toml.loads(text)
    except toml.TOMLDecodeError as error:
        raise Wrong(f"{path}: {error}") from None
    for key in found:
        if key not in ("budget", "allow"):
            raise Wrong(f"{path}: {key!r} is none of budget, allow")
    budgets = found.get("budget", {})
    if not isinstance(budgets, dict):
        raise Wrong(f'{path}: budget is not a table: write [budget."tests/test_x.py::test_y"]')
    read = {test: _budget(f"{path}: budget {test!r}", table) for test, table in budgets.items() if "::" in test}
    return {test: budget for test, budget in read.items() if budget}


def _budget(where: str, table: Any) -> Optional[Budget]:
    if not isinstance(table, dict):
        raise Wrong(f"{where} is not a table")
    for key in table:
        if key not in ("peak", "level", "grow"):
            raise Wrong(f"{where}: {key!r} is none of peak, level, grow")
    level = table.get("level")
    if level is not None and level not in LEVELS:
        raise Wrong(f"{where}: level {level!r} is none of {', '.join(LEVELS)}")
    if "peak" not in table:
        return None
    try:
        return Budget(sizes.parse(table["peak"]), level)
    except ValueError as error:
        raise Wrong(f"{where}: {error}") from None


def _toml() -> Any:
    """A TOML parser, if there is one."""
    try:
        import tomllib

        return tomllib
    except ImportError:
        pass
    try:
        import tomli  # type: ignore[import-not-found,unused-ignore]

        return tomli
    except ImportError:
        return None
