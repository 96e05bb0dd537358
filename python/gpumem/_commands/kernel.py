"""`gpumem kernel`: a Jupyter kernel whose processes are recorded."""

import argparse
import json
import os
import re
import sys
from pathlib import Path
from typing import Any, Dict, List

from .._machine import installed
from .._text.messages import Renamed, say


def specification(python: str, display_name: str) -> Dict[str, Any]:
    """The contents of kernel.json: `gpumem run` starts the kernel and becomes it."""
    return {
        "argv": [
            python, "-m", "gpumem", "run", "--no-report",
            "-m", "ipykernel_launcher", "-f", "{connection_file}",
        ],
        "display_name": display_name,
        "language": "python",
        "metadata": {"debugger": True},
    }  # fmt: skip


def _folder(options: argparse.Namespace) -> Path:
    """The folder in which Jupyter looks for kernels."""
    if options.user:
        data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
        return Path(os.environ.get("JUPYTER_DATA_DIR") or os.path.join(data, "jupyter")) / "kernels"
    return Path(options.prefix or sys.prefix) / "share" / "jupyter" / "kernels"


def main(words: List[str]) -> int:
    """Adds the kernel. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="gpumem kernel", description="Adds a Jupyter kernel that is recorded, so that %%gpumem works in it."
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--sys-prefix", dest="user", action=Renamed, form="the default", const=False)
    where.add_argument("--user", action="store_true", help="for all of this user's Jupyters. Default: in this Python's environment")
    where.add_argument("--prefix", metavar="PATH", help="below PATH/share/jupyter")
    parser.add_argument("--name", default="gpumem", help="the kernel's name (gpumem)")
    options = parser.parse_args(words)
    if not re.fullmatch(r"[A-Za-z0-9._-]+", options.name):
        parser.error(f"a kernel's name has only letters, digits, `.`, `_` and `-`: {options.name}")
    installed.library()  # a missing library is reported now, not when a notebook is opened
    folder = _folder(options) / options.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(specification(sys.executable, "Python 3 (gpumem)"), indent=1)
        (folder / "kernel.json").write_text(text + "\n")
    except OSError as error:
        say(f"kernel: {error}; another place: --user or --prefix PATH")
        return 1
    print(f"The kernel {options.name} is in {folder}. Choose “Python 3 (gpumem)” in Jupyter.")
    return 0
