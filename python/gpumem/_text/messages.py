"""Messages on stderr, results on stdout, and text for 80 columns."""

import os
import sys
import textwrap
from pathlib import Path
from typing import List, Sequence


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
