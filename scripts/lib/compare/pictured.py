"""The captures for all pictures: a training run that ends, and a program that runs out of memory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BUILT = Path(os.environ.get("GPUMEM_BUILT") or ROOT / "target" / "release")
ANALYZER, LIBRARY = BUILT / "gpumem-analyze", BUILT / "libgpumem.so"
WITH_SIMULATOR = ROOT / "scripts" / "with-simulator"
TRAINING = Path("tests/workloads/train.py")
PIECES = ROOT / "tests" / "workloads" / "dies" / "pieces.py"


@dataclass(frozen=True)
class Captures:
    """The capture of the training run, and that of the failing program."""

    training: Path
    failing: Path


def simulated(python: Path, program: list, memory: str, folder: Path, fails: bool = False, **environment: str) -> None:
    """Runs a program on the simulator."""
    command = [WITH_SIMULATOR, "--memory", memory, "--profile", "cuda13", python, *program]
    done = subprocess.run(
        [*map(str, command)], cwd=folder, env={**os.environ, **environment}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )
    if (done.returncode != 0) != fails:
        sys.exit(f"{program}: exit code {done.returncode}\n{done.stdout}")


def record(folder: Path, python: Path) -> Captures:
    """Records captures that do not exist yet."""
    made = Captures(folder / "demo.bin", folder / "pieces.bin")
    recorder = {"LD_PRELOAD": str(LIBRARY), "GPUMEM_QUIET": "1"}
    if not made.training.exists():
        simulated(python, [TRAINING], "16GiB", ROOT, GPUMEM_OUTPUT=str(made.training), **recorder)
    if not made.failing.exists():
        shutil.copy(PIECES, folder)
        simulated(python, [PIECES.name], "1GiB", folder, fails=True, GPUMEM_OUTPUT=str(made.failing), **recorder)
    return made


def analyze(*arguments: object) -> None:
    """Runs gpumem-analyze. A partial result is accepted."""
    done = subprocess.run([str(ANALYZER), *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode not in (0, 3):
        sys.exit(f"gpumem-analyze {' '.join(map(str, arguments))}: {done.stdout}")
