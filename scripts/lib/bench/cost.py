"""The cost of an allocation, compared with PyTorch's own recorder; and its dependence on depth."""

from __future__ import annotations

import statistics
from pathlib import Path

from servers import Configuration, added, alone, recording, running, take_turns

MODULES = 9
# Depths of nested modules: 10, 13, 25, 49, 100 and 199 Python frames.
DEPTHS = (2, 3, 7, 15, 32, 65)


def measure(python: str, rounds: int, loops: int, folder: Path) -> list[str]:
    """The table of all configurations, and the most important ratios."""
    base, off, by_python, mixed = alone(), recording("off"), recording("python"), recording("mixed")
    sampled = recording("mixed", "512KiB")
    torch_python = Configuration('PyTorch\'s recorder, stacks="python"', recorder="python")
    torch_all = Configuration('PyTorch\'s recorder, stacks="all"', recorder="all")
    everyone = [base, off, sampled, by_python, mixed, torch_python, torch_all]
    with running(python, folder, *everyone):
        frames = base.ask("depth", MODULES)
        times = take_turns("events", rounds, everyone, lambda server: server.ask("loop", loops, MODULES))
    rows = [
        f"*alloc + free*: one tensor of 1 KiB from PyTorch's cache and its free (two events), {loops:,} a round, under "
        f"{frames[0]} Python and {frames[1]} native frames (nine nested `nn.Module`s).",
        "",
        "| | alloc + free, µs | added, µs |",
        "|---|---:|---:|",
    ]
    for server, taken in times.items():
        more = "" if server is base else f"{added(taken, times[base]) / 1e3:.2f}"
        rows.append(f"| {server.label} | {statistics.median(taken) / 1e3:.2f} | {more} |")
    cost = {server: added(taken, times[base]) for server, taken in times.items()}
    return rows + [
        "",
        f"- What gpumem adds with Python stacks is {cost[by_python] / cost[torch_python]:.2f} of what "
        'PyTorch\'s recorder adds with `stacks="python"` (budget: 0.50).',
        f"- What gpumem adds with both stacks is {cost[mixed] / cost[torch_python]:.2f} of what it adds with "
        f'`stacks="python"` (budget: 0.50), and {cost[mixed] / cost[torch_all]:.2f} of what it adds with '
        '`stacks="all"` (budget: 0.20).',
    ]


def measure_depths(python: str, rounds: int, loops: int, folder: Path) -> list[str]:
    """The table of depths."""
    base, by_python, mixed = alone(), recording("python"), recording("mixed")
    rows = [
        "| nested modules | Python frames | native frames | alone, µs | python adds, µs | mixed adds, µs |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    with running(python, folder, base, by_python, mixed):
        for modules in DEPTHS:
            frames = base.ask("depth", modules)
            times = take_turns(
                f"{modules} modules", rounds, [base, by_python, mixed],
                lambda server: server.ask("loop", loops, modules),
            )
            more = [added(times[server], times[base]) / 1e3 for server in (by_python, mixed)]
            rows.append(
                f"| {modules} | {frames[0]} | {frames[1]} | {statistics.median(times[base]) / 1e3:.2f} | "
                f"{more[0]:.2f} | {more[1]:.2f} |"
            )
    return rows
