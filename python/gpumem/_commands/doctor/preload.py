"""Checks whether LD_PRELOAD loads the library into a program, and whether a capture can be written and read."""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from ..._launch import launcher
from ..._machine import installed, simulator
from .check import ERROR, OK, WARNING, Check

SECONDS = 60

# Scripts that run in a separate interpreter. The first runs in any CPython from 3.6 on and without this package.
_INTERPRETER = Path(__file__).with_name("interpreter.py")
_ALLOCATES = Path(__file__).with_name("allocates.py")
_BYTES = 1 << 20


class Asked(NamedTuple):
    """The output of an interpreter, and the check of its preloaded library."""

    said: Optional[Dict[str, Any]]
    check: Check


def ask(python: str) -> Asked:
    """Starts an interpreter with the library preloaded, and reads what is loaded."""
    try:
        env = launcher.environment({})
    except launcher.CannotRun as error:
        return Asked(_say(python, dict(os.environ))[0], Check("recorder", ERROR, str(error), "Install the wheel again."))
    library = installed.preloadable(installed.library())
    said, why = _say(python, env)
    if said is None:
        check = Check("recorder", ERROR, f"{python} does not run with {library}: {why}", _advice(why))
        return Asked(_say(python, dict(os.environ))[0], check)
    if said["api"] is None or not said["loaded"]:
        advice = _advice(why) if why else "A program that is static or setuid ignores LD_PRELOAD: use another Python."
        return Asked(said, Check("recorder", ERROR, f"{library} was not loaded into {python}{': ' if why else ''}{why}", advice))
    return Asked(said, Check("recorder", OK, f"LD_PRELOAD loads it into a program: {library}"))


def _say(python: str, env: Mapping[str, str]) -> Tuple[Optional[Dict[str, Any]], str]:
    """The interpreter's output, and its first line on stderr."""
    done = _run([python, str(_INTERPRETER)], env)
    first = done.stderr.strip().splitlines()[:1]
    why = first[0] if first else (f"it ended with {done.returncode}" if done.returncode else "")
    try:
        return json.loads(done.stdout), why
    except ValueError:
        return None, why or "it printed no message"


def _advice(why: str) -> str:
    if "GLIBC" in why or "symbol" in why.lower():
        return "gpumem needs glibc 2.17 or later; musl (Alpine) is not supported. Use an image with glibc."
    if "wrong ELF class" in why or "cannot be preloaded" in why:
        return "The library is for Linux on x86-64 with glibc. Install the wheel for this machine."
    return "Send this line with a bug report."


def recording(machine_env: Mapping[str, str]) -> Check:
    """Records one allocation on the simulated GPU, and reads the capture. This checks everything but the real
    driver."""
    name = "self-test"
    report = "Send this line with a bug report."
    try:
        reader = installed.analyzer()
        with tempfile.TemporaryDirectory(prefix="gpumem-doctor.") as folder:
            capture = Path(folder) / "report.bin"
            why = _recorded(capture, machine_env)
            if why:
                return Check(name, ERROR, f"no capture was written: {why}", report)
            read = _run([str(reader), "report", "--all", "--format", "json", str(capture)], os.environ)
            if read.returncode:
                return Check(name, WARNING, f"a capture was written and cannot be read: {_first(read)}", report)
            peaks = re.findall(r'"driver":\s*{[^}]*"peak_bytes":\s*(\d+)', read.stdout)
            if peaks != [str(_BYTES)]:
                return Check(name, ERROR, f"1 MiB was allocated, and the capture has {peaks or 'none'} bytes", report)
    except (installed.Missing, launcher.CannotRun) as error:
        return Check(name, WARNING, f"not run: {error}", "Install the wheel, which has all parts.")
    except OSError as error:
        return Check(name, WARNING, f"not run: {error}", "See the temporary folder above.")
    return Check(name, OK, "1 MiB on the simulated GPU was recorded, and its capture read")


def _recorded(capture: Path, machine_env: Mapping[str, str]) -> str:
    """Makes a capture of one allocation. Returns the error, or an empty string."""
    kept = ("GPUMEM_LIBRARY", "GPUMEM_RING")
    # Only the simulated card is visible, regardless of CUDA_VISIBLE_DEVICES.
    base = {key: value for key, value in machine_env.items() if not key.startswith(("GPUMEM_", "CUDA_")) or key in kept}
    env = launcher.environment({"GPUMEM_OUTPUT": str(capture), "GPUMEM_QUIET": "1"}, base)
    env = simulator.environment(sys.executable, env, {})
    done = _run([sys.executable, str(_ALLOCATES), installed.FOLDER], env)
    return "" if done.returncode == 0 and capture.is_file() else _first(done)


def _first(done: "subprocess.CompletedProcess[str]") -> str:
    """The first message of a command that failed."""
    return next(iter(done.stderr.strip().splitlines()), f"it ended with {done.returncode}")


def analyzer() -> Check:
    """Checks that the program that reads captures exists and has this version."""
    name = "analyzer"
    try:
        program = installed.analyzer()
    except installed.Missing as error:
        return Check(name, WARNING, str(error), "Captures are written, and no report is printed. Install the wheel again.")
    done = _run([str(program), "--version"], os.environ)
    said = done.stdout.strip()
    if done.returncode or not said:
        advice = "Captures are written, and no report is printed. Install the wheel again."
        return Check(name, WARNING, f"{program} does not run: {_first(done)}", advice)
    version = said.split()[-1]
    if version != installed.version():
        return Check(
            name, WARNING, f"{program} is {version}, the package is {installed.version()}",
            "Install the wheel again, or unset GPUMEM_ANALYZE and GPUMEM_LIBRARY.",
        )  # fmt: skip
    return Check(name, OK, f"{said}, {program}")


def options(known: List[str], env: Mapping[str, str]) -> Iterator[Check]:
    """The variables of gpumem that are set, and names that are similar to its options."""
    import difflib

    mine = {name: value for name, value in env.items() if name in known}
    if mine:
        yield Check("options", OK, ", ".join(f"{name}={value}" for name, value in sorted(mine.items())))
    for name in sorted(env):
        if name.startswith("GPUMEM_") and known and name not in known:
            close = difflib.get_close_matches(name, known, 1, 0.85)
            if close:
                yield Check("options", WARNING, f"{name} is not an option", f"Did you mean {close[0]}?")


def _run(command: List[str], env: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    """Runs a command to its end. If it takes too long or cannot be started, the result has status 124 or 127 and a
    message."""
    try:
        return subprocess.run(
            command, env=dict(env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            universal_newlines=True, errors="replace", timeout=SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"no result within {SECONDS} s")
    except OSError as error:
        return subprocess.CompletedProcess(command, 127, "", f"{command[0]}: {error.strerror}")
