"""Messages and progress on stderr, results on stdout, text for 80 columns, tables, and options with a new form."""

import argparse
import os
import sys
import textwrap
import time
from pathlib import Path
from typing import Any, Callable, Collection, List, Optional, Sequence


def say(text: str) -> None:
    """Prints a message of gpumem on stderr."""
    print(f"gpumem: {text}", file=sys.stderr, flush=True)


def show(text: str) -> None:
    """Prints a result on stdout. A closed pipe (as by head) is not an error."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # Prevents the interpreter from writing to it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def wrapped(lines: Sequence[str]) -> List[str]:
    """Lines of text for 80 columns."""
    wrap = textwrap.TextWrapper(79, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return [part for line in lines for part in wrap.wrap(line)]


def short(path: Path) -> str:
    """The path relative to the current folder if it is below it, else the whole path."""
    whole, here = os.path.realpath(path), os.path.realpath(os.curdir)
    return os.path.relpath(whole, here) if whole.startswith(here + os.sep) else str(path)


def aligned(rows: Sequence[Sequence[str]], left: Collection[int] = ()) -> List[str]:
    """A line for each row. Cells are at the right of their column, in the columns `left` at its left."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(_cell(cell, width, place in left) for place, (cell, width) in enumerate(zip(row, widths))).rstrip() for row in rows]


def _cell(text: str, width: int, is_left: bool) -> str:
    return text.ljust(width) if is_left else text.rjust(width)


class Renamed(argparse.Action):
    """An option of earlier releases. It works until the next release, with a line that names the new form."""

    def __init__(self, option_strings: Sequence[str], dest: str, form: str, const: Any = None, **more: Any) -> None:
        more = {**more, "nargs": 0} if const is not None else more
        super().__init__(option_strings, dest, const=const, default=argparse.SUPPRESS, help=argparse.SUPPRESS, **more)
        self._form = form

    def __call__(self, _: argparse.ArgumentParser, options: argparse.Namespace, value: Any, name: Optional[str] = None) -> None:
        say(f"`{name}` is now {self._form}: the old name works until the next release")
        setattr(options, self.dest, value if self.const is None else self.const)


class Progress:
    """Progress on one line of the terminal, if there is one."""

    def __init__(self) -> None:
        self._shown, self._said = sys.stderr.isatty(), False

    def say(self, what: str) -> None:
        if self._shown:
            self._said = True
            sys.stderr.write(f"\r\x1b[K{what:.78}")
            sys.stderr.flush()

    def told(self, what: str) -> Callable[[float], None]:
        """A function that takes the completed fraction and shows it from time to time."""
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
