"""Progress messages of the benchmark."""

import sys


def progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K   {text}", end="", file=sys.stderr, flush=True)


def say(text: str) -> None:
    progress("")
    print(f"== {text}", file=sys.stderr, flush=True)
