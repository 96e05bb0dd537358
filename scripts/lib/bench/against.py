"""Compares the recorder's costs with those of another version. Each round measures both, and this version twice, to
show how much of a difference is noise."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any, Callable, Iterator

from servers import Configuration, alone, running, take_turns

STACKS = ("off", "python", "mixed")
DEPTHS = (3, 9)
THREADS = ((1, 1), (2, 2), (4, 4), (8, 8), (4, 1))
KINDS = {"transformer": "transformer", "conv": "conv net"}


def measurements() -> Iterator[tuple[str, tuple, Callable[[Any], float]]]:
    """Name, command and the figure of its result, in nanoseconds."""
    yield "alloc + free, 31 Python frames", ("loop", 10_000, 9), float
    for modules in DEPTHS:
        yield f"report and release, {modules} modules", ("parts", 4096, modules), lambda answer: answer["whole"]
    for threads, devices in THREADS:
        name = f"reports of {threads} threads, {devices} device{'s' * (devices > 1)}"
        yield name, ("threads", threads, devices, 5000), lambda answer: answer[0]
    yield "cuMemAlloc + cuMemFree", ("driver", 1000), lambda answer: answer["pair"]
    yield "cuMemCreate, map, unmap, release", ("driver", 1000), lambda answer: answer["block"]
    for kind, name in (("plain", "cuMemAlloc + cuMemFree"), ("async", "cuMemAllocAsync + cuMemFreeAsync")):
        for threads in (1, 8):
            yield f"{name}, {threads} thread{'s' * (threads > 1)}, passed", ("pairs", kind, threads, 20_000 // threads), lambda answer: answer[1]
    for kind, name in KINDS.items():
        yield f"step, {name}", ("step", kind, 3), float


def measure(python: str, other: Path, starts: int, rounds: int, folder: Path) -> list[str]:
    """The table. Each start has new processes, because addresses alone change a process's speed by some percent."""
    taken: dict[tuple[str, str], dict[str, list[list[float]]]] = {}
    for start in range(starts):
        for stacks in STACKS:
            base, now = alone(), Configuration("now", stacks)
            again = Configuration("again", stacks, place="-again")
            before = Configuration("before", stacks, place="-before", library=other)
            everyone = [base, now, before, again]
            with running(python, folder / f"{start}-{stacks}", *everyone):
                for name, command, figure in measurements():
                    answers = take_turns(
                        f"start {start + 1} of {starts}, {stacks}, {name}", rounds, everyone,
                        lambda server: figure(server.ask(*command)),
                    )
                    row = taken.setdefault((name, stacks), {server.label: [] for server in everyone})
                    for server, values in answers.items():
                        row[server.label].append(values)
    rows = [
        f"Medians of {starts} starts of {rounds} rounds in which all alternate; *before* is `{other.name}` of the other "
        "version. In brackets the least and the greatest median of one start.",
        "",
        "| | stacks | alone, ns | before adds | now adds | now / before, of the whole | the same library again |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for (name, stacks), row in taken.items():
        whole = {label: statistics.median(value for values in of for value in values) for label, of in row.items()}
        more = {label: statistics.median(differences(row[label], row["PyTorch alone"])) for label in ("before", "now")}
        rows.append(
            f"| {name} | {stacks} | {whole['PyTorch alone']:.0f} | {more['before']:.0f} | {more['now']:.0f} | "
            f"{compared(row['now'], row['before'])} | {compared(row['again'], row['now'])} |"
        )
    return rows


def differences(mine: list[list[float]], base: list[list[float]]) -> list[float]:
    """The additional time of each round."""
    return [m - b for of_mine, of_base in zip(mine, base) for m, b in zip(of_mine, of_base)]


def compared(mine: list[list[float]], base: list[list[float]]) -> str:
    """The ratio of the times of a round, over all starts and for each start."""
    starts = [[m / b for m, b in zip(of_mine, of_base)] for of_mine, of_base in zip(mine, base)]
    medians = [statistics.median(start) for start in starts]
    whole = statistics.median(ratio for start in starts for ratio in start)
    return f"{whole:.3f} ({min(medians):.3f} to {max(medians):.3f})"
