"""Measures what a recorded process costs apart from its calls: its start and end, its memory at rest and with many threads,
and an end while nobody reads stderr. Versions of the library take turns in each round.

    cargo build --release
    python3 scripts/lib/bench/start.py [--rounds N] now=target/release/libgpumem.so [before=LIBRARY …]"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Optional

from paths import WITH_SIMULATOR, WORKLOADS
from progress import progress
from servers import clean_environment

THREADS = 1000
# Processes of a kind in each round.
STARTS = 20
Environment = dict[str, str]


def simulator() -> str:
    """The folder of the simulated libraries."""
    shown = subprocess.run([WITH_SIMULATOR, "env"], env=clean_environment(), capture_output=True, text=True, check=True)
    return re.search(r"^LD_LIBRARY_PATH=([^:\n]+)", shown.stdout, re.MULTILINE)[1]


def clean(folder: Path) -> None:
    for report in folder.glob("*.bin"):
        report.unlink()


def started(command: list[str], environment: Environment, folder: Path) -> tuple[float, float, int]:
    """Milliseconds until a process has ended, those of the processor, and page faults. It is started with little else."""
    null = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)]
    begin = time.perf_counter()
    process = os.posix_spawn(command[0], command, environment, file_actions=null)
    _, status, used = os.wait4(process, 0)
    elapsed = time.perf_counter() - begin
    assert status == 0, (command, status)
    clean(folder)
    return elapsed * 1e3, (used.ru_utime + used.ru_stime) * 1e3, used.ru_minflt


def memory(command: list[str], environment: Environment, folder: Path) -> list[tuple[int, int]]:
    """Virtual and resident KiB, each time that the program prints them."""
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    clean(folder)
    printed = re.findall(r"VmSize:\s*(\d+) kB\nVmRSS:\s*(\d+) kB", done.stdout)
    return [(int(size), int(resident)) for size, resident in printed]


def unread(command: list[str], environment: Environment, folder: Path) -> float:
    """Milliseconds of a process whose stderr is a full pipe that nobody reads."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    for size in (4096, 1):
        try:
            while True:
                os.write(writer, b"x" * size)
        except BlockingIOError:
            pass
    os.set_blocking(writer, True)
    begin = time.perf_counter()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=writer, check=True)
    elapsed = time.perf_counter() - begin
    os.close(reader)
    os.close(writer)
    clean(folder)
    return elapsed * 1e3


def figures(client: str, environment: Environment, folder: Path) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for name, command in (("`true`", ["/bin/true"]), ("a context and two blocks", [client])):
        runs = [started(command, environment, folder) for _ in range(STARTS)]
        for what, values in zip((", ms", ": processor, ms", ": page faults"), zip(*runs)):
            found[name + what] = list(values)
    [(size, resident)] = memory([client, "rest"], environment, folder)
    found["at rest: resident, MB"] = [resident * 1.024e-3]
    found["at rest: virtual, MB"] = [size * 1.024e-3]
    (_, before), (_, with_threads) = memory([client, "threads", str(THREADS)], environment, folder)
    found["each thread that allocates: resident, KiB"] = [(with_threads - before) / THREADS]
    found["an end while nobody reads stderr, ms"] = [unread([client], environment, folder) for _ in range(5)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("libraries", nargs="+", metavar="NAME=LIBRARY")
    options = parser.parse_args()
    libraries: dict[str, Optional[str]] = {"without": None}
    for one in options.libraries:
        name, path = one.split("=", 1)
        libraries[name] = str(Path(path).resolve())
    # A separate folder for rings: those that others have left elsewhere would be merged by the measured processes.
    with tempfile.TemporaryDirectory() as temporary, tempfile.TemporaryDirectory(dir="/dev/shm") as rings:
        folder = Path(temporary)
        client = str(folder / "start_cost")
        subprocess.run(["cc", "-O1", "-o", client, WORKLOADS / "start_cost.c", "-ldl", "-pthread"], check=True)
        plain = clean_environment(
            LD_LIBRARY_PATH=simulator(), GPUMEM_SIM_CARD="", GPUMEM_OUTPUT=str(folder / "%p.bin"), GPUMEM_RING=rings,
        )
        taken: dict[str, dict[str, list[float]]] = {}
        for turn in range(options.rounds):
            for name, library in libraries.items():
                progress(f"round {turn + 1} of {options.rounds}, {name}")
                environment = plain if library is None else {**plain, "LD_PRELOAD": library}
                for what, values in figures(client, environment, folder).items():
                    taken.setdefault(what, {}).setdefault(name, []).extend(values)
    progress("")
    print("| median (least) | " + " | ".join(libraries) + " |")
    print("|---|" + "---:|" * len(libraries))
    for what, by_name in taken.items():
        cells = (f"{statistics.median(by_name[name]):.1f} ({min(by_name[name]):.1f})" for name in libraries)
        print(f"| {what} | " + " | ".join(cells) + " |")


main()
