"""Running programs on the simulator and under libgpumem.so; used through conftest's fixtures."""

from __future__ import annotations

import json
import os
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping, Optional, Sequence, Union

from waiting import WATCHDOG

ROOT = Path(__file__).resolve().parents[2]
WORKLOADS = ROOT / "tests" / "workloads"
# Captures that scripts/lib/docs-captures has recorded of some of them.
CAPTURES = ROOT / "tests" / "data" / "captures"
# Folder of the built libraries and programs; with-simulator and the package use the same one.
BUILT = Path(os.environ.setdefault("GPUMEM_BUILT", str(ROOT / "target" / "debug")))
EXAMPLES = BUILT / "examples"
# What clients look for, as with-simulator links it.
SIMULATOR, SIMULATOR_PRELOAD = BUILT / "simulator", BUILT / "simulator-preload"
LIBRARY = BUILT / "libgpumem.so"
ANALYZER = BUILT / "gpumem-analyze"
WITH_SIMULATOR = ROOT / "scripts" / "with-simulator"
ENVIRONMENT = ROOT / "scripts" / "lib" / "environment"

Arg = Union[str, Path]
Done = subprocess.CompletedProcess


def clean_environment(changes: Optional[Mapping[str, Optional[str]]] = None) -> dict[str, str]:
    """This process's environment without anything that steers gpumem, a preload, CUDA or cargo's compiler, with
    `changes` made; a value of None takes a variable away."""
    steer = ("GPUMEM_", "LD_PRELOAD", "CUDA_", "PYTORCH_", "PYTHON", "RUSTC_WORKSPACE_WRAPPER", "CLIPPY_ARGS")
    environment = {
        name: value for name, value in os.environ.items() if name == "GPUMEM_BUILT" or not name.startswith(steer)
    }
    for name, value in (changes or {}).items():
        if value is None:
            environment.pop(name, None)
        else:
            environment[name] = value
    return environment


def described(done: Done) -> str:
    """All details of a run, for the message of a failure."""
    return (
        f"exit {done.returncode} of {' '.join(map(str, done.args))}\n"
        f"--- stdout\n{done.stdout}\n--- stderr\n{done.stderr}"
    )


def run(
    command: Sequence[Arg],
    *,
    env: Optional[Mapping[str, Optional[str]]] = None,
    cwd: Optional[Path] = None,
    timeout: float = WATCHDOG,
    check: bool = True,
) -> Done:
    """Runs a command to its end, its output as text. With `check` an exit code other than 0 fails the test with all
    output of the command."""
    done = subprocess.run(
        [str(part) for part in command],
        env=clean_environment(env),
        cwd=cwd,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    if check and done.returncode != 0:
        raise AssertionError(described(done))
    return done


def simulator_command(command: Sequence[Arg], *, devices: int = 1, memory: str = "16GiB") -> list[str]:
    """The command line that runs `command` on the simulator."""
    return [
        str(WITH_SIMULATOR),
        "--devices",
        str(devices),
        "--memory",
        memory,
        *(str(part) for part in command),
    ]


def preloaded(env: Optional[Mapping[str, Optional[str]]] = None) -> dict[str, Optional[str]]:
    """`env` with libgpumem.so preloaded."""
    return {"LD_PRELOAD": str(LIBRARY), **(env or {})}


def simulate(
    command: Sequence[Arg],
    *,
    devices: int = 1,
    memory: str = "16GiB",
    preload: bool = False,
    env: Optional[Mapping[str, Optional[str]]] = None,
    cwd: Optional[Path] = None,
    timeout: float = WATCHDOG,
    check: bool = True,
) -> Done:
    """Runs a command on the simulator, with libgpumem.so if `preload`."""
    return run(
        simulator_command(command, devices=devices, memory=memory),
        env=preloaded(env) if preload else env,
        cwd=cwd,
        timeout=timeout,
        check=check,
    )


def analyze(*arguments: Arg, check: bool = True, timeout: float = WATCHDOG) -> Done:
    """Runs gpumem-analyze."""
    return run([ANALYZER, *arguments], check=check, timeout=timeout)


def analyze_json(command: str, *arguments: Arg, check: bool = True) -> object:
    """What a subcommand of gpumem-analyze prints as JSON."""
    return unwrapped(analyze(command, "--format", "json", *arguments, check=check).stdout)


def unwrapped(answer: str) -> object:
    """What `gpumem-analyze --format json` has below its head (docs/json.md): a list of rows, or an object."""
    said = json.loads(answer)
    [body] = said.keys() & {"rows", "data"}
    return said[body]


def parts_of(rows: list) -> list:
    """Rows of `lines`, with one row for each part of a line: of one phase, one category, and one autograd node."""
    parts = []
    for row in rows:
        for part in row.get("parts", [{}]):
            category = part.get("category")
            of = [{"category": category, "bytes": part["bytes"]}] if category else row.get("categories", [])
            parts.append({**row, **part, "categories": of})
    return parts


def ring_of(report: Path) -> Path:
    """The file in memory that holds the ring of a capture, from its static header (capture/SPEC.md)."""
    with open(report, "rb") as file:
        head = file.read(512)
    kind, length = struct.unpack_from("<II", head, 144)
    assert kind == 4, f"the ring is in no file: {kind}"
    return Path(os.fsdecode(head[152 : 152 + length]))


def read_books(path: Path) -> dict:
    """The books that the simulator wrote at exit."""
    return json.loads(path.read_text())


# What the simulator must look like to clients of NVIDIA's own CUDA 10.2 libraries.
CUDA_10 = {"GPUMEM_SIM_PROFILE": "cuda10"}
SIMULATED_CARD = {"torch215": {}, "torch112": CUDA_10, "numba": {}}


def figures(done: Done) -> dict:
    """The figures in the last line that `tell.py` printed."""
    for line in reversed(done.stdout.splitlines()):
        if line.startswith("FIGURES "):
            return json.loads(line[len("FIGURES ") :])
    raise AssertionError(f"no figures\n{described(done)}")


@dataclass(frozen=True)
class Trained:
    """A recorded training: its capture, its own figures, and how it ended."""

    environment: str
    report: Path
    figures: dict
    done: Done


def train(environment: str, python: Path, folder: Path, *script: Arg, end: str = "hard") -> Trained:
    """Runs tests/workloads/train.py (or another script) under `tell.py` on the simulator with
    libgpumem.so, in `folder`."""
    script = script or (WORKLOADS / "train.py", "--steps", "4", "--batch", "16")
    report = folder / "report.bin"
    done = simulate(
        [python, WORKLOADS / "tell.py", "--end", end, *script],
        preload=True,
        env={**SIMULATED_CARD[environment], "GPUMEM_OUTPUT": str(report)},
        cwd=folder,
        check=end != "kill",
    )
    return Trained(environment, report, figures(done), done)


def device_of(summary: dict, ordinal: int = 0) -> dict:
    """One device of `gpumem-analyze report --all --format json`."""
    return next(row for row in summary["devices"] if row["ordinal"] == ordinal)
