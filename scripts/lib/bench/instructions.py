"""Measures the instructions and the misses of the nearest caches in a training step, with valgrind's callgrind. The
figures are nearly the same in every run, regardless of the machine's load. They are not times: a miss of the second
cache, a lock and a page fault cost nothing here.

    scripts/lib/environment torch215
    cargo build --release && cargo build --release --package gpumem --example bench_probe
    ~/.cache/gpumem/env/torch215/bin/python scripts/lib/bench/instructions.py [--library LIBRARY] [--by-function]

The threads of the training are counted, over ten steps of scripts/bench's transformer. The threads that empty the ring
and write the file run in parallel and have a separate column. Needs valgrind, and about nine minutes."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from paths import LIBRARY, WITH_SIMULATOR, WORKLOADS
from servers import clean_environment

STEPS = 10
EVENTS = ("Ir", "I1mr", "D1mr", "D1mw")
NAMES = ("instructions", "code", "reads", "writes")
# The caches of a core of a current server; a step's working set fits in the last one.
CACHES = ["--cache-sim=yes", "--I1=32768,8,64", "--D1=49152,12,64", "--LL=2097152,16,64"]
# PyTorch alone, and with options of the recorder.
MODES: tuple[dict[str, str] | None, ...] = (
    None,
    {"GPUMEM_STACKS": "off"},
    {"GPUMEM_STACKS": "mixed", "GPUMEM_STACK_SAMPLE": "4MiB", "GPUMEM_BACKWARD": "off"},
    {"GPUMEM_STACKS": "mixed", "GPUMEM_STACK_SAMPLE": "512KiB", "GPUMEM_BACKWARD": "off"},
    {"GPUMEM_STACKS": "python", "GPUMEM_STACK_SAMPLE": "512KiB"},
    {"GPUMEM_STACKS": "mixed", "GPUMEM_STACK_SAMPLE": "512KiB"},
    {"GPUMEM_STACKS": "mixed", "GPUMEM_STACK_SAMPLE": "4MiB"},
    {"GPUMEM_STACKS": "python"},
    {"GPUMEM_STACKS": "mixed"},
)
# Functions of the recorder's own threads: one empties the ring, one writes the file.
BESIDE = ("gpumem_capture::writer::drain", "gpumem_capture::writer::store")
# The library's functions; the simulator's are counted as PyTorch's.
OURS = ("gpumem::", "gpumem_capture::", "gpumem_python_frames::", "gpumem_stacks::", "gpumem_tracker::", "gpumem_unwind::")


def functions(path: Path) -> dict[str, Counter]:
    """The own cost of each function in a callgrind file."""
    events: list[str] = []
    names: dict[str, str] = {}
    cost: dict[str, Counter] = {}
    function, called = "", False
    for line in path.read_text().splitlines():
        if line.startswith("events:"):
            events = line.split()[1:]
        elif found := re.match(r"(c?fn)=\((\d+)\)(?: (.*))?", line):
            kind, number, name = found.groups()
            if name:
                names[number] = name
            if kind == "fn":
                function = names[number]
        elif line.startswith("calls="):
            called = True  # the next line is the cost of the callee
        elif line and line[0] in "+-*0123456789":
            if not called:
                numbers = map(int, line.split()[1:])
                cost.setdefault(function, Counter()).update(dict(zip(events, numbers)))
            called = False
    return cost


def measure(mode: dict[str, str] | None, library: Path, folder: Path) -> tuple[Counter, Counter, dict[str, Counter]]:
    """The cost of a step on the training's threads and on the drain's, and of each function on the training's
    threads."""
    folder.mkdir()
    environment = {}
    if mode is not None:
        environment = {
            **mode, "LD_PRELOAD": str(library), "GPUMEM_QUIET": "1", "GPUMEM_OUTPUT": str(folder / "report.bin"),
        }
    command = [
        "env", *(f"{name}={value}" for name, value in environment.items()), WITH_SIMULATOR, "--devices", "1",
        "--memory", "8GiB", "valgrind", "--quiet", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes",
        *CACHES, f"--callgrind-out-file={folder / 'out'}", sys.executable, WORKLOADS / "counted_steps.py", str(STEPS),
    ]
    done = subprocess.run(
        command, env=clean_environment(), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )
    training, drain, of_training = Counter(), Counter(), {}
    for path in folder.glob("out.1-*"):
        of_thread = functions(path)
        is_drain = any(name.startswith(BESIDE) for name in of_thread)
        for name, cost in of_thread.items():
            (drain if is_drain else training).update(cost)
            if not is_drain:
                of_training.setdefault(name, Counter()).update(cost)
    if not training:
        raise SystemExit(f"instructions: callgrind counted nothing:\n{done.stdout[-2000:]}")
    return training, drain, of_training


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=Path, default=LIBRARY, help="the library to be measured")
    parser.add_argument("--by-function", action="store_true", help="the library's functions too, the costliest first")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        base: Counter = Counter()
        print("| a step | instructions | misses: code | reads | writes | beside it, drain and file |")
        print("|---|---:|---:|---:|---:|---:|")
        for number, mode in enumerate(MODES):
            cost, drain, by_function = measure(mode, options.library.resolve(), Path(folder) / str(number))
            if mode is None:
                base = cost
                cells = [f"{cost[event] / STEPS:,.0f}" for event in EVENTS] + [""]
            else:
                cells = [f"{100 * (cost[event] / base[event] - 1):+.1f} %" for event in EVENTS]
                cells.append(f"{100 * drain['Ir'] / base['Ir']:+.1f} %")
            label = "PyTorch alone"
            if mode is not None:
                label = " ".join(f"{name}={value}" for name, value in mode.items())
            print(f"| {label} | {' | '.join(cells)} |", flush=True)
            if options.by_function and mode is not None:
                ours = [(name, cost) for name, cost in by_function.items() if name.startswith(OURS)]
                ours.sort(key=lambda one: -one[1]["Ir"])
                for name, cost in ours[:16]:
                    figures = "  ".join(f"{what} {cost[e] / STEPS:>9,.0f}" for what, e in zip(NAMES, EVENTS))
                    print(f"    {name[:76]:76}  {figures}", file=sys.stderr)


if __name__ == "__main__":
    main()
