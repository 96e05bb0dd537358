"""The commands on PATH. PyPI has another project with a command `gpumem`."""

import os
import sys
import sysconfig
from importlib import util
from pathlib import Path
from typing import Iterator, List, Optional

from ..._machine import installed
from .check import OK, WARNING, Check, Machine

FIRST, SECOND = "gpumem", "libgpumem"


def checks(machine: Machine) -> Iterator[Check]:
    yield package()
    yield on_path(machine)


def package() -> Check:
    """The version, and the folder that it was imported from."""
    found = f"{installed.version()}, {installed.PACKAGE}"
    spec = util.find_spec("gpumem")
    if spec is not None and spec.origin and Path(spec.origin).resolve().parent != installed.PACKAGE:
        return Check("gpumem", WARNING, f"{found}; `import gpumem` finds {spec.origin}", "Take the other one out of PYTHONPATH.")
    return Check("gpumem", OK, found)


def on_path(machine: Machine) -> Check:
    """Whether the first `gpumem` on PATH belongs to this package."""
    name = "command"
    found = which(FIRST, machine.env.get("PATH", ""))
    module = f"{sys.executable} -m gpumem"
    if found is None:
        return Check(name, WARNING, f"no command {FIRST} is on PATH", f"Put {_commands()} on PATH, or run {module}.")
    if not is_ours(found):
        second = which(SECOND, machine.env.get("PATH", ""))
        use = SECOND if second and is_ours(second) else module
        return Check(name, WARNING, f"{found} is first on PATH and belongs to another project", f"Use {use} in place of {FIRST}.")
    # Tool managers link the commands of each environment into one folder.
    places = {os.path.realpath(os.path.dirname(found)), os.path.dirname(os.path.realpath(found))}
    if not places & {os.path.realpath(folder) for folder in _folders()}:
        return Check(
            name, WARNING, f"{found} is first on PATH and belongs to another installation of gpumem",
            f"Activate the environment that you mean, or run {module}.",
        )  # fmt: skip
    return Check(name, OK, f"{found} is first on PATH")


def which(name: str, path: str) -> Optional[str]:
    """The first program of this name on a PATH."""
    for folder in path.split(os.pathsep):
        program = os.path.join(folder or os.curdir, name)
        if os.path.isfile(program) and os.access(program, os.X_OK):
            return program
    return None


def is_ours(program: str) -> bool:
    """Whether a command starts this package's `main`. Installers write a script, or a small program followed by one."""
    try:
        with open(program, "rb") as file:
            return b"gpumem.__main__" in file.read(1 << 20)
    except OSError:
        return False


def _folders() -> List[str]:
    """Possible folders of this installation's commands."""
    command = installed.installed_command(FIRST)
    return [*([str(command.parent)] if command else []), _commands(), os.path.dirname(sys.executable)]


def _commands() -> str:
    return sysconfig.get_path("scripts")
