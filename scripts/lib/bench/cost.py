"""What an allocation and a training step cost, beside PyTorch's own recorder; and at which depths."""

from __future__ import annotations

import statistics
from pathlib import Path

from servers import Configuration, added, alone, ratio, recording, running, take_turns

KINDS = ("transformer", "conv")
MODULES = 9
# Of nested modules: 10, 13, 25, 49, 100 and 199 Python frames.
DEPTHS = (2, 3, 7, 15, 32, 65)


def measure(python: str, rounds: int, loops: int, steps: int, folder: Path) -> list[str]:
    """The table of all configurations, and the ratios that matter."""
    base, off, by_python, mixed = alone(), recording("off"), recording("python"), recording("mixed")
    torch_python = Configuration('PyTorch\'s recorder, stacks="python"', recorder="python")
    torch_all = Configuration('PyTorch\'s recorder, stacks="all"', recorder="all")
    everyone = [base, off, by_python, mixed, torch_python, torch_all]

    def ask(server: Configuration) -> dict:
        answers = {kind: server.ask("step", kind, steps) for kind in KINDS}
        return {"loop": server.ask("loop", loops, MODULES), **answers}

    with running(python, folder, *everyone):
        frames = base.ask("depth", MODULES)
        tensors = {kind: base.ask("allocations", kind) for kind in KINDS}
        answers = take_turns("events and steps", rounds, everyone, ask)
    times = {
        server: {what: [answer[what] for answer in all_of_them] for what in ("loop", *KINDS)}
        for server, all_of_them in answers.items()
    }
    rows = [
        f"*alloc + free*: one tensor of 1 KiB from PyTorch's cache and its free (two events), {loops:,} a round, under "
        f"{frames[0]} Python and {frames[1]} native frames (nine nested `nn.Module`s).",
        f"*transformer*: a step with Adam of four transformer blocks, {tensors['transformer']} tensors a step; *conv net*: "
        f"of three convolutions with batch norms, {tensors['conv']} tensors; {steps} of each a round.",
        "",
        "| | alloc + free, µs | added, µs | transformer, ms | added | conv net, ms | added |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for server, taken in times.items():
        cells = [server.label, f"{statistics.median(taken['loop']) / 1e3:.2f}"]
        cells.append("" if server is base else f"{added(taken['loop'], times[base]['loop']) / 1e3:.2f}")
        for kind in KINDS:
            cells.append(f"{statistics.median(taken[kind]) / 1e6:.2f}")
            more = 100 * (ratio(taken[kind], times[base][kind]) - 1)
            cells.append("" if server is base else f"{more:+.1f} %")
        rows.append(f"| {' | '.join(cells)} |")
    cost = {server: added(taken["loop"], times[base]["loop"]) for server, taken in times.items()}
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
