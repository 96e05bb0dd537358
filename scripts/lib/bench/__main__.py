"""The program of scripts/bench: see there. Standard library only; any Python from 3.9 on."""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import shutil
import tempfile
from pathlib import Path

import against
import analysis
import cost
import heap
import memory
import parts
import steps
import threads
from paths import ROOT
from progress import progress, say


BY_INSTRUCTIONS = "## Instructions of a step\n"


def machine() -> str:
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    cores = len(os.sched_getaffinity(0))
    libc = " ".join(platform.libc_ver())
    return f"{model}, {cores} cores, {platform.system()} {platform.machine()}, {libc}, CPython {platform.python_version()}"


def compare(options: argparse.Namespace) -> None:
    """Prints the costs of this version and of another one."""
    starts, rounds = (2, 3) if options.quick else (6, options.rounds)
    with tempfile.TemporaryDirectory(prefix="gpumem-bench-") as folder:
        rows = against.measure(options.python, options.against.resolve(), starts, rounds, Path(folder))
    progress("")
    print("\n".join(rows))


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Measures gpumem; see scripts/bench.")
    parser.add_argument("--python", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--memray", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--output", type=Path, help="default: docs/measured/bench.md")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, to target/bench.md")
    parser.add_argument("--against", type=Path, help="compare with this libgpumem.so of another version, and nothing else")
    options = parser.parse_args()
    if options.against:
        compare(options)
        return
    kept = Path("target/bench.md") if options.quick else Path("docs/measured/bench.md")
    output = options.output or ROOT / kept
    rounds, loops, training, repeats, stacks = options.rounds, 20_000, 2200, 3, 1_000_000
    starts, turns = 12, 3 * rounds
    if options.quick:
        rounds, loops, training, repeats, stacks = 3, 2000, 50, 1, 100_000
        starts, turns = 2, 6
    few = max(3, rounds // 2)

    load = os.getloadavg()[0]
    python = options.python
    folder = Path(tempfile.mkdtemp(prefix="gpumem-bench-"))
    try:
        say(f"cost of events: {rounds} rounds")
        costs = cost.measure(python, rounds, loops, folder / "cost")
        say(f"steps: {starts} starts of {turns} rounds")
        (folder / "steps").mkdir()
        by_step = steps.measure(python, starts, turns, 3, folder / "steps")
        say("parts of an event")
        by_part = parts.measure(python, rounds, 8192, folder / "parts")
        say("depths")
        depths = cost.measure_depths(python, few, loops // 4, folder / "depths")
        say("threads")
        by_threads = threads.measure(python, few, loops // 2, folder / "threads")
        say("memray")
        on_heap = heap.measure(python, options.memray, few, loops // 2, folder)
        say(f"memory under {stacks:,} stacks")
        taken = memory.measure(python, stacks, folder / "memory")
        say(f"recording and analysing a training of {training} steps")
        analysed = analysis.measure(python, training, repeats, folder)
    finally:
        progress("")
        shutil.rmtree(folder)

    lines = [
        "# Benchmark",
        "",
        f"`scripts/bench`, {datetime.date.today().isoformat()}, on {machine()}. PyTorch 2.15.0 on the simulator, where",
        "kernels take no time; on a card, recording is a smaller share. Medians of "
        f"{rounds} rounds (depths, threads and memray: {few}) in which the configurations alternated. Load average before "
        f"the run: {load:.1f}"
        + (" (the machine was busy; the ratios are more reliable than the times)." if load > 1 else "."),
        "",
        "## Cost of recording",
        "",
        *costs,
        "",
        "## Steps of a training",
        "",
        *by_step,
        "",
        "## Parts of an event",
        "",
        "Measured inside a call under nested `nn.Module`s. The rows are the recorder's own functions one by one on the "
        "current stacks. The last rows show what the preloaded library adds to PyTorch's report of a block and of its "
        "release (two events; the first carries stacks). The least of the rounds. In brackets: the share of that whole "
        "with both stacks, in the same run.",
        "",
        *by_part,
        "",
        "## Depth of the stack",
        "",
        "As *alloc + free* above. Native stacks keep the newest 512 frames.",
        "",
        *depths,
        "",
        "## Threads",
        "",
        "Reports of blocks and releases, both stacks, 31 Python frames each, by Python threads without the GIL. The "
        "figures are processor time per pair. *By the clock* is the wall time of a pair relative to one thread, on as "
        "many cores as the threads have, while another thread drains the ring. With *a device each*, threads share only "
        "the ring. With *one device for all*, they share its counters too, which PyTorch's own lock of the device would "
        "otherwise guard.",
        "",
        *by_threads,
        "",
        "## The host's heap: memray",
        "",
        "memray 1.20 in the same rounds: 1 KiB from malloc under nine modules that are called as PyTorch's are. For "
        "Python frames, memray has a cost at each call of a function, not at each allocation.",
        "",
        *on_heap,
        "",
        "## Memory of the library",
        "",
        "Resident memory of a process with the library minus that of a process without it.",
        "",
        *taken,
        "",
        "## Reading a capture",
        "",
        *analysed,
        "",
    ]
    # The output of scripts/lib/bench/instructions.py is added manually, because it needs valgrind.
    before = output.read_text() if output.exists() else ""
    lines += ["".join(before.partition(BY_INSTRUCTIONS)[1:])]
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text("\n".join(lines))
    print("\n".join(lines))
    say(f"written to {output}")


if __name__ == "__main__":
    main()
