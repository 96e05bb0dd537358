"""The cost of an event while other threads also report events, and whether events are lost or out of order."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from pathlib import Path
from typing import Callable, Sequence

from paths import ANALYZER, WORKLOADS
from servers import added, alone, ratio, recording, running

THREADS = (1, 2, 4, 8)
DEVICES = (("a device each", 8), ("one device for all", 1))


def measure(python: str, rounds: int, count: int, folder: Path) -> list[str]:
    """The tables of threads, and the result of gpumem-analyze check for the capture."""
    folder.mkdir()
    library = built(python, folder)
    without, mixed = alone(), recording("mixed")
    reports: dict[tuple, list] = {}
    tensors: dict[tuple, list] = {}
    with running(python, folder / "run", without, mixed):
        for number in range(rounds + 1):
            for _, devices in DEVICES:
                for threads in THREADS:
                    report = mixed.ask("threads", threads, devices, count)
                    ask = ("allocating", library, threads, devices, count // 2)
                    tensor = [server.ask(*ask)[0] for server in (without, mixed)]
                    if number:  # round 0 warms up
                        reports.setdefault((threads, devices), []).append(report)
                        tensors.setdefault((threads, devices), []).append(tensor)
    return [
        *of_reports(reports), "",
        "Threads that make a tensor of 1 KiB and drop it: PyTorch's allocator has a lock for each device. Processor "
        "time per tensor, and what gpumem adds to it with both stacks.", "",
        *of_tensors(tensors), "", checked(mixed.capture),
    ]


def built(python: str, folder: Path) -> Path:
    """The library of bench_threads.cpp, built for the PyTorch of that interpreter."""
    said = subprocess.check_output([python, "-c", "import torch; print(torch.__file__)"], text=True)
    torch = Path(said.strip()).parent
    library = folder / "libbench_threads.so"
    command = [
        os.environ.get("CXX", "c++"), "-shared", "-fPIC", "-O2", "-std=c++20", "-w", "-DAT_PER_OPERATOR_HEADERS",
        f"-I{torch}/include", "-o", library, WORKLOADS / "bench_threads.cpp", f"-L{torch}/lib", f"-Wl,-rpath,{torch}/lib",
        "-Wl,--unresolved-symbols=ignore-in-shared-libs", "-ltorch_cpu", "-lc10",
    ]
    subprocess.run(command, check=True)
    return library


def table(columns: str, cells: Callable[[int, int], Sequence[float]]) -> list[str]:
    """A row for each number of threads, with `cells(threads, devices)` for each number of devices. `columns` has the
    names, separated by `|`; the first is that of the rows."""
    count = columns.count("|") + 1
    rows = [
        "| threads | " + " | ".join(f"{name}{columns}" for name, _ in DEVICES) + " |",
        "|---:|" + "---:|" * count * len(DEVICES),
    ]
    for threads in THREADS:
        found = [f"{cell:.2f}" for _, devices in DEVICES for cell in cells(threads, devices)]
        rows.append(f"| {threads} | {' | '.join(found)} |")
    return rows


def of_reports(answers: dict[tuple, list]) -> list[str]:
    """The table of threads that report blocks."""
    cores = len(os.sched_getaffinity(0))

    def cells(threads: int, devices: int) -> Sequence[float]:
        spent, passed = zip(*answers[threads, devices])
        alone_spent, alone_passed = zip(*answers[1, devices])
        # The time of a pair, as if the threads' cores worked one after the other.
        by_clock = [time * min(threads, cores) for time in passed]
        return statistics.median(spent) / 1e3, ratio(spent, alone_spent), ratio(by_clock, alone_passed)

    return table(", µs a pair | × one thread | by the clock", cells)


def of_tensors(answers: dict[tuple, list]) -> list[str]:
    """The table of threads that create tensors: `answers` has, for each round, the times without and with the
    library."""

    def more(threads: int, devices: int) -> float:
        base, mine = zip(*answers[threads, devices])
        return added(mine, base)

    def cells(threads: int, devices: int) -> Sequence[float]:
        base = statistics.median(base for base, _ in answers[threads, devices])
        here = more(threads, devices)
        return base / 1e3, here / 1e3, here / more(1, devices)

    return table(": alone, µs | added, µs | × one thread's", cells)


def checked(capture: Path) -> str:
    """One sentence: events, how many were lost, and whether their order agrees with the counters."""
    done = subprocess.run(
        [ANALYZER, "check", "--format", "json", capture], stdout=subprocess.PIPE, text=True
    )
    found = json.loads(done.stdout)["data"]
    order = {True: "agrees", False: "**does not agree**", None: "could not be compared"}
    return (
        f"`gpumem-analyze check` of that capture: exit code {done.returncode}, {found['events']:,} events "
        f"and {found['definitions']:,} definitions, "
        f"{found['lost_events']} lost; a replay in their order {order[found['counters_agree']]} with the counters."
    )
