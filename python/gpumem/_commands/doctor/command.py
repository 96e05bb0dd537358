"""`gpumem doctor`: the command line."""

import argparse
import os
import shutil
import sys
from typing import List, Sequence

from ..._launch import launcher
from ..._machine import installed, simulator
from ..._text.messages import say, show
from . import commands, driver, places, preload, surroundings, text, versions
from .check import ERROR, Check, Machine
from .form import FORM

NO_RESULT = 1

_DESCRIPTION = """\
Checks whether gpumem can record on this machine. Prints one line for each
check, with the result and what to do. Attach the output to a bug report."""

_EPILOG = """\
The folder and the options are those of a recording that is started from here:
GPUMEM_OUTPUT, GPUMEM_RING and the others are read.

  gpumem doctor                  # for the GPUs of this machine
  gpumem doctor --simulate
  gpumem doctor --python ~/venv/bin/python --format json

Exit status: 0 recording works, 1 it does not, 2 the command line is wrong.
"""

# Set for the process that replaces this one, in which libcuda is the simulated GPU's.
_STARTED = "GPUMEM_DOCTOR_SIMULATES"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpumem doctor", description=_DESCRIPTION, epilog=_EPILOG, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--simulate", action="store_true", help="check for gpumem run --simulate, which needs no GPU and no driver")
    parser.add_argument("--python", metavar="PATH", default=sys.executable, help="the Python that runs your program. Default: this one")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="text, or JSON")
    return parser


def main(words: Sequence[str]) -> int:
    """Runs `gpumem doctor` with these arguments. Returns the exit status."""
    parser = _parser()
    options = parser.parse_args(list(words))
    if not shutil.which(options.python):
        parser.error(f"--python {options.python}: no such program")
    machine = Machine()
    if options.simulate and _STARTED not in os.environ:
        try:
            _on_the_simulated(list(words))
        except (installed.Missing, launcher.CannotRun) as error:
            say(f"doctor: {error}")
            return NO_RESULT
    checks = examine(machine, options.python)
    works = not any(check.status == ERROR for check in checks)
    if options.format == "json":
        rows = [{"check": each.name, "status": each.status, "found": each.found, "advice": each.advice or None} for each in checks]
        show(FORM.json({"works": works, "rows": rows}))
    else:
        show(text.page(checks))
    return 0 if works else NO_RESULT


def _on_the_simulated(words: List[str]) -> None:
    """Restarts the command with the simulated card's libcuda."""
    settings = {name: value for name, value in os.environ.items() if name.startswith("GPUMEM_SIM_")}
    env = simulator.environment(sys.executable, os.environ, settings)
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from gpumem.__main__ import main; sys.exit(main())"
    launcher.become([sys.executable, "-c", code, installed.FOLDER, "doctor", *words], {**env, _STARTED: "1"})


def examine(machine: Machine, python: str) -> List[Check]:
    """Every check, in the order of the output."""
    asked = preload.ask(python)
    return [
        *commands.checks(machine),
        *surroundings.checks(machine),
        asked.check,
        preload.analyzer(),
        *(versions.checks(asked.said) if asked.said else ()),
        *driver.checks(driver.probe(machine.env), machine),
        *places.checks(machine),
        *preload.options(asked.said["options"] if asked.said else [], machine.env),
        preload.recording(machine.env),
    ]
