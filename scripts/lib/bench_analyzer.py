"""Measures the speed and memory of gpumem-analyze, and those of memray and heaptrack."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RELEASE = ROOT / "target" / "release"
WORKLOADS = ROOT / "tests" / "workloads"


class Version:
    """A version of gpumem: cargo's build folder, and the labels of its rows and captures."""

    def __init__(self, release: Path, name: str = ""):
        self.release, self.name = release, name
        self.analyzer = release / "gpumem-analyze"

    def capture(self, folder: Path, of: str) -> Path:
        return folder / f"{self.name}{of}.bin"

    def label(self, row: str) -> str:
        return f"{self.name}: {row}" if self.name else row


NOW = Version(RELEASE)


class Taken:
    """The cost of one command: processor time of all its threads, wall time, peak memory."""

    def __init__(self, command: list, folder: Path):
        began = time.perf_counter()
        with open(folder / "said.txt", "w") as said:
            process = subprocess.Popen([*map(str, command)], cwd=folder, stdout=said, stderr=said)
            _, status, usage = os.wait4(process.pid, 0)
        self.wall = time.perf_counter() - began
        self.cpu = usage.ru_utime + usage.ru_stime
        self.memory = usage.ru_maxrss / 1024
        if os.waitstatus_to_exitcode(status):
            sys.exit(f"{command}: {(folder / 'said.txt').read_text()}")


def record(command: list, capture: Path, **environment) -> None:
    """Records captures that do not exist yet."""
    if capture.exists():
        return
    print(f"== recording {capture.name}", file=sys.stderr, flush=True)
    done = subprocess.run(
        [*map(str, command)], cwd=capture.parent, env={**os.environ, **environment}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )
    if done.returncode or not capture.exists():
        sys.exit(f"{command}: {done.stdout}")


def recorded(version: Version, python: str, capture: Path, *command) -> Path:
    """A capture of a PyTorch program on the simulator, with both stacks."""
    record(
        [ROOT / "scripts" / "with-simulator", python, *command], capture, GPUMEM_OUTPUT=str(capture),
        LD_PRELOAD=str(version.release / "libgpumem.so"), GPUMEM_QUIET="1", GPUMEM_SIM_MODULE_BYTES="2MiB",
    )
    return capture


def events_of(version: Version, capture: Path) -> int:
    said = subprocess.run([version.analyzer, "report", "--all", "--format", "json", capture], stdout=subprocess.PIPE)
    found = json.loads(said.stdout)
    # Older versions have no head.
    return found.get("data", found)["events"]


def turns(commands: dict[str, list], rounds: int, folder: Path) -> dict[str, list[Taken]]:
    """Runs the commands in turns."""
    taken: dict[str, list[Taken]] = {name: [] for name in commands}
    for number in range(rounds):
        for name, command in commands.items():
            print(f"   round {number + 1} of {rounds}: {name}", file=sys.stderr, flush=True)
            taken[name].append(Taken(command, folder))
    return taken


def median(taken: list[Taken], what: str) -> float:
    return statistics.median(getattr(one, what) for one in taken)


def table(taken: dict[str, list[Taken]], events: dict[str, int]) -> list[str]:
    """`events`: the number of events that each command has read."""
    rows = [
        "| command | processor time, s | M events/s of a core | passed, s | M events/s | most memory, MB |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, all_of in taken.items():
        cpu, wall = median(all_of, "cpu"), median(all_of, "wall")
        memory = max(one.memory for one in all_of) * 1.048576
        speed = [f"{events[name] / seconds / 1e6:.1f}" for seconds in (cpu, wall)]
        rows.append(f"| {name} | {cpu:.2f} | {speed[0]} | {wall:.2f} | {speed[1]} | {memory:.0f} |")
    return rows


def views(version: Version, capture: Path) -> dict[str, list]:
    analyzer = version.analyzer
    rows = {
        "`gpumem-analyze FILE` (all of it)": [analyzer, capture],
        "summary, lines and flamegraph of one reading": [
            version.release / "examples" / "three_views", capture, "three.svg",
        ],
        "`report --all`": [analyzer, "report", "--all", capture],
        "`lines`": [analyzer, "lines", capture],
        "`flamegraph`": [analyzer, "flamegraph", "-o", "peak.svg", capture],
        "`ledger`": [analyzer, "ledger", capture],
    }
    return {version.label(row): command for row, command in rows.items()}


def of_captures(captures: dict[Version, Path], rounds: int, folder: Path) -> list[str]:
    """The costs of each version's views, with a capture from the same version, all in turns."""
    said, commands, events = [], {}, {}
    for version, capture in captures.items():
        of, size = events_of(version, capture), capture.stat().st_size
        said.append(version.label(f"{of:,} events, {size:,} bytes: {size / of:.2f} bytes an event on disk."))
        commands[version] = views(version, capture)
        events.update(dict.fromkeys(commands[version], of))
    # The same view of all versions, one after the other.
    together = [row for rows in zip(*(of.items() for of in commands.values())) for row in rows]
    return [*said, "", *table(turns(dict(together), rounds, folder), events)]


def training(versions: list[Version], python: str, steps: int, rounds: int, folder: Path) -> list[str]:
    command = [WORKLOADS / "train.py", "--steps", steps, "--batch", 2, "--size", 16]
    captures = {
        version: recorded(version, python, version.capture(folder, "training"), *command) for version in versions
    }
    return of_captures(captures, rounds, folder)


def long(versions: list[Version], events: int, folder: Path) -> list[str]:
    captures = {version: version.capture(folder, "long") for version in versions}
    for version, capture in captures.items():
        record([version.release / "examples" / "long_run", "record", capture, events, "full", 10_000], capture)
    return of_captures(captures, 1, folder)


def side_by_side(arguments: argparse.Namespace, folder: Path) -> list[str]:
    churn, count = WORKLOADS / "churn.py", arguments.allocations
    ours = recorded(NOW, arguments.python, folder / "gpumem.bin", churn, "tensors", count)
    sizes = {"gpumem": ours.stat().st_size}
    commands = {"gpumem: `gpumem-analyze FILE`": [NOW.analyzer, ours]}
    if arguments.memray:
        theirs = folder / "memray.bin"
        record([arguments.memray, "-m", "memray", "run", "--native", "-q", "-o", theirs, churn, "heap", count], theirs)
        sizes["memray"] = theirs.stat().st_size
        memray = [arguments.memray, "-m", "memray"]
        commands["memray: `flamegraph -f FILE`"] = [*memray, "flamegraph", "-f", "-o", "memray.html", theirs]
        commands["memray: `summary FILE`"] = [*memray, "summary", theirs]
    if arguments.heaptrack:
        python = arguments.memray or arguments.python
        found = list(folder.glob("heaptrack*.zst")) + list(folder.glob("heaptrack*.gz"))
        if not found:
            # It appends the suffix of its compression.
            subprocess.run(
                [arguments.heaptrack, "-o", folder / "heaptrack", python, churn, "heap", str(count)],
                check=True, stdout=subprocess.DEVNULL,
            )
            found = list(folder.glob("heaptrack*.zst")) + list(folder.glob("heaptrack*.gz"))
        sizes["heaptrack"] = found[0].stat().st_size
        commands["heaptrack: `heaptrack_print FILE`"] = [f"{arguments.heaptrack}_print", found[0]]
    taken = turns(commands, arguments.rounds, folder)
    return [
        f"{2 * count:,} events of each; bytes on disk: "
        + ", ".join(f"{of} {size:,}" for of, size in sizes.items()),
        "",
        *table(taken, dict.fromkeys(commands, 2 * count)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", required=True)
    parser.add_argument("--memray")
    parser.add_argument("--heaptrack")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=30_000)
    parser.add_argument("--long", type=int, default=100_000_000)
    parser.add_argument("--allocations", type=int, default=2_000_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--against", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (arguments.folder or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        versions = [NOW, *([Version(arguments.against.resolve(), "before")] if arguments.against else [])]
        for title, lines in (
            ("A training", training(versions, arguments.python, arguments.steps, arguments.rounds, folder)),
            ("A long capture", long(versions, arguments.long, folder)),
            ("Side by side", [] if arguments.against else side_by_side(arguments, folder)),
        ):
            print(f"## {title}\n", *lines, "", sep="\n", flush=True)


if __name__ == "__main__":
    main()
