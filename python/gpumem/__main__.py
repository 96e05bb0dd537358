"""The command `gpumem`, and `python -m gpumem`."""

import difflib
import os
import sys
from typing import List, Optional

from . import run
from ._launch import launcher
from ._machine import installed
from ._text.messages import say

_USAGE = """\
Usage: gpumem COMMAND …

  run [OPTIONS] PROGRAM …   runs a program and shows where its GPU memory goes (gpumem run --help)
  CAPTURE                   the report of a capture: what it is, why memory ran out, who has it
  lines | tree | html | … CAPTURE
                            other views of it: all commands of gpumem-analyze (gpumem analyze --help)
  live PID | CAPTURE        shows the memory of a running program in the terminal
  ci --base BASE --head HEAD --fail-over 2%
                            compares peaks before and after a change; budgets, history, trend (gpumem ci --help)
  report --hints CAPTURE, oom CAPTURE
                            shows possible savings, or why memory ran out; also replays with other settings
  whatif CAPTURE …          replays a run with other settings of PyTorch's allocator (gpumem whatif --help)
  plan --card CARD -- PROGRAM …
                            shows whether a program fits a GPU that you do not have (gpumem plan --help)
  card list | show CARD | measure
                            lists the known cards; measures a card (gpumem card --help)
  fleet query NAME DATASET | sql "select …" DATASET | ingest …
                            makes and queries a dataset of captures of many jobs (gpumem fleet --help)
  live --metrics CAPTURE | FOLDER | PATTERN …
                            serves metrics of running programs for Prometheus
  mcp [--root DIR]…         serves captures to AI assistants (Model Context Protocol)
  kernel [--user | --prefix PATH] [--name NAME]
                            adds a recorded Jupyter kernel, in which %%gpumem works
  doctor [--simulate]       checks whether recording works on this machine (gpumem doctor --help)
  library                   prints the path of libgpumem.so: LD_PRELOAD=$(gpumem library) python train.py
  version                   prints the version
"""

# The commands that need Python.
_HERE = ("run", "oom", "whatif", "plan", "card", "fleet", "mcp", "kernel", "doctor", "library", "version", "analyze")
# The commands of gpumem-analyze that do not, and those that are forms of others now.
_OF_ANALYZE = (
    "changes", "check", "ci", "diff", "export", "flamegraph", "html", "import", "leaks", "ledger", "lines", "live",
    "ranks", "report", "timeline", "tree", "--generate",
)
_RENAMED = ("completions", "exporter", "fragmentation", "man", "recover", "scopes", "sizes", "summary", "symbolize", "temporary", "threads")


def main(words: Optional[List[str]] = None) -> int:
    """Runs the command of the command line. Returns the exit status."""
    words = sys.argv[1:] if words is None else words
    if not words or words[0] in ("-h", "--help", "help"):
        print(_USAGE, end="", file=sys.stdout if words else sys.stderr)
        return 0 if words else launcher.FAILED
    command, rest = words[0], words[1:]
    try:
        if command == "run":
            return run.main(rest)
        if command in ("oom", "hints") or (command == "report" and "--hints" in rest):
            from ._whatif import replayed

            return replayed.main(command, rest)
        is_capture = command not in _HERE and os.path.exists(command)
        if command in (*_OF_ANALYZE, *_RENAMED) or command == "analyze" or is_capture:
            program = str(installed.analyzer())
            launcher.become([program, *(rest if command == "analyze" else words)], os.environ)
        if command == "mcp":
            program = str(installed.analyzer())
            # whatif and plan use the Python that has this package.
            launcher.become([program, "mcp", "--python", sys.executable, *rest], os.environ)
        if command == "whatif":
            from ._whatif import command as whatif

            return whatif.main(rest)
        if command == "plan":
            from ._plan import command as plan

            return plan.main(rest)
        if command == "card":
            from ._commands.cards import command as card

            return card.main(rest)
        if command == "fleet":
            from ._commands.fleet import command as fleet

            return fleet.main(rest)
        if command == "doctor":
            from ._commands.doctor import command as doctor

            return doctor.main(rest)
        if command == "library":
            print(installed.preloadable(installed.library()))
            return 0
        if command == "kernel":
            from ._commands import kernel

            return kernel.main(rest)
        if command in ("version", "--version", "-V"):
            print(f"gpumem {installed.version()}")
            return 0
    except (installed.Missing, launcher.CannotRun) as error:
        say(f"{command}: {error}")
        return launcher.FAILED
    meant = difflib.get_close_matches(command, (*_HERE, *_OF_ANALYZE), 1)
    better = f"did you mean gpumem {meant[0]}?" if meant else "gpumem --help lists the commands"
    say(f"no file or command is named {command}: {better}")
    return launcher.FAILED


if __name__ == "__main__":
    sys.exit(main())
