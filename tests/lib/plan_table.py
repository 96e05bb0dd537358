"""The table of docs/measured/plan-programs.md: the plan's figures, the programs' own figures, and those of other
tools.

    plan_table.py [PROGRAM…] > rows

with the Python of the environment tests, from any folder. Prints each row as soon as it is complete; reasons of
tools that fail go to stderr."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, Iterable, List, Optional

import harness
import plan_programs as programs

MIB = 1 << 20
HEADS = ("program", "planned tensors", "planned reserved", "equal", "MemTracker", "accelerate", "DeepSpeed")
ESTIMATORS = Path(__file__).parent / "plan_estimators.py"


def estimates(python: Path, name: str, folder: Path, kind: str) -> Dict[str, Optional[int]]:
    """The figures of plan_estimators.py. A rank gets its process group, and programs that need values have them, as
    in a plan."""
    parts: List[str] = []
    env = programs.environment(folder)
    if name in programs.RANKS:
        parts.append("world")
        world = str(programs.RANKS[name])
        env.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE=world, LOCAL_WORLD_SIZE=world, MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    if kind == "device" and name in programs.READ_VALUES:
        parts.append("values")
    if parts:
        env = programs.inside.environment(parts, env)
    file = folder / f"{kind}.json"
    command = [python, ESTIMATORS, kind, file, programs.program(name)]
    done = harness.simulate(command, devices=programs.RANKS.get(name, 1), memory=programs.CARD, env=env, cwd=folder, check=False)
    if not file.exists():
        raise AssertionError(harness.described(done))
    return json.loads(file.read_text())


def by_itself(python: Path, name: str, folder: Path) -> str:
    try:
        tensors, reserved = programs.own(python, name, folder, timeout=60)
    except subprocess.TimeoutExpired:
        return "does not end"
    except AssertionError as error:
        raised = re.findall(r"^(?:\[rank0\]: )?[\w.]*(?:Error|Exception)\b.*", str(error), re.M)
        return raised[-1][:90] if raised else "fails"
    return f"{tensors:,} / {reserved:,}"


def row(python: Path, name: str, folder: Path) -> List[str]:
    run = programs.Compared(python, name, folder)
    equal = run.planned == run.own
    if name in programs.READ_VALUES:
        print(f"{name}: by itself {by_itself(python, name, folder)}", file=sys.stderr, flush=True)
    fake, device = (estimates(python, name, folder, kind) for kind in ("fake", "device"))
    for kind, said in (("fake", fake), ("device", device)):
        if said["failed"]:
            print(f"{name}: MemTracker, {kind}: {said['failed']}", file=sys.stderr, flush=True)
    tracked = fake["mem_tracker"] or device["mem_tracker"]
    # The run without the libraries' memory, because no tool knows their workspaces.
    tensors = run.planned[0][0]

    def beside(value: Optional[int], mark: str = "") -> str:
        return "–" if value is None else f"{value:,}{mark} ({value / tensors:.0%})"

    def both(level: Iterable[int]) -> str:
        return " / ".join(f"{each:,}" for each in dict.fromkeys(level))

    allocated, reserved = zip(*run.planned)
    kind = "values" if name in programs.READ_VALUES else "yes"
    return [
        name, both(allocated), both(reserved),
        kind if equal else f"no: {run.own}", beside(tracked, "" if fake["mem_tracker"] else " d"),
        beside(device["accelerate"]), beside(device["deepspeed"]),
    ]  # fmt: skip


def main(names: List[str]) -> None:
    found = subprocess.run([harness.ENVIRONMENT, "programs"], stdout=subprocess.PIPE, text=True, check=True)
    python = Path(found.stdout.strip())
    print("| " + " | ".join(HEADS) + " |\n|---|---:|---:|---|---:|---:|---:|", flush=True)
    for name in names or programs.names():
        with tempfile.TemporaryDirectory() as folder:
            print("| " + " | ".join(row(python, name, Path(folder))) + " |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
