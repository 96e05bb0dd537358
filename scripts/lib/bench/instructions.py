"""What a training step costs in instructions and in misses of the nearest caches, by valgrind's callgrind: nearly the
same figures in every run, whatever else the machine does. Time it is not: a miss of the second cache, a lock and a page
that the processor has forgotten cost nothing here.

    scripts/lib/environment torch215
    cargo build --release && cargo build --release --package gpumem --example bench_probe
    ~/.cache/gpumem/env/torch215/bin/python scripts/lib/bench/instructions.py [--library LIBRARY] [--by-function]

Counted are the threads of the training, over ten steps of scripts/bench's transformer; the threads that empty the ring
and write the file run beside them and have a column of their own. Wants valgrind, and some nine minutes."""

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
# The caches of a current server's core; a step's working set fits the last one.
CACHES = ["--cache-sim=yes", "--I1=32768,8,64", "--D1=49152,12,64", "--LL=2097152,16,64"]
# PyTorch alone, and with the recorder's options.
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
# What the recorder's own threads run: one empties the ring, one writes the file.
BESIDE = ("gpumem_capture::writer::drain", "gpumem_capture::writer::store")
# Of the library; the simulator's own are PyTorch's here.
OURS = ("gpumem::", "gpumem_capture::", "gpumem_python_frames::", "gpumem_stacks::", "gpumem_tracker::", "gpumem_unwind::")


def functions(path: Path) -> dict[str, Counter]:
    """What each function of a file of callgrind's cost itself."""
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
            called = True  # the next line is the callee's
        elif line and line[0] in "+-*0123456789":
            if not called:
                numbers = map(int, line.split()[1:])
                cost.setdefault(function, Counter()).update(dict(zip(events, numbers)))
            called = False
    return cost


def measure(mode: dict[str, str] | None, library: Path, folder: Path) -> tuple[Counter, Counter, dict[str, Counter]]:
    """What a step costs the training's threads, and the drain's; and each function of the training's."""
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
