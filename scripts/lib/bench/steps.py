"""The cost of a training step, compared with PyTorch's own recorder.

The time of a step of PyTorch alone differs by some percent between processes, depending on memory addresses, and the
machine's speed changes from second to second. So the processes are restarted many times, and those that run at the same
time take turns every few steps."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Sequence

from servers import Configuration, alone, recording, running, take_turns

KINDS = {"transformer": "transformer", "conv": "conv net"}


def measure(python: str, starts: int, rounds: int, steps: int, folder: Path) -> list[str]:
    """The table of steps."""
    millis: dict[str, dict[str, list[float]]] = {}
    ratios: dict[str, dict[str, list[list[float]]]] = {}
    for start in range(starts):
        base, everyone = configurations()
        with running(python, folder / str(start), *everyone):
            tensors = {kind: base.ask("allocations", kind) for kind in KINDS}
            answers = take_turns(
                f"steps: start {start + 1} of {starts}", rounds, everyone,
                lambda server: {kind: server.ask("step", kind, steps) for kind in KINDS},
            )
        for server, taken in answers.items():
            for kind in KINDS:
                mine, theirs = ([answer[kind] for answer in of] for of in (taken, answers[base]))
                millis.setdefault(server.label, {}).setdefault(kind, []).extend(time / 1e6 for time in mine)
                of_start = [m / b for m, b in zip(mine, theirs)]
                ratios.setdefault(server.label, {}).setdefault(kind, []).append(of_start)
    rows = [
        f"*transformer*: a step with Adam of four transformer blocks, {tensors['transformer']} tensors a step; *conv net*: "
        f"of three convolutions with batch norms, {tensors['conv']} tensors. {starts} starts of every process. In each "
        f"start, they alternate every {steps} steps for {rounds} rounds. *added*: the median over all rounds of the time beyond "
        "PyTorch alone in that round; in brackets, the least and the greatest median of one start.",
        "",
        "| | " + " | ".join(f"{name}, ms | added" for name in KINDS.values()) + " |",
        "|---|" + "---:|---:|" * len(KINDS),
    ]
    for label in millis:
        cells = [label]
        for kind in KINDS:
            cells.append(f"{statistics.median(millis[label][kind]):.2f}")
            cells.append("" if label == base.label else added(ratios[label][kind]))
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def configurations() -> tuple[Configuration, list[Configuration]]:
    """PyTorch alone, and all configurations that are compared with it, including itself, to show the noise."""
    base = alone()
    return base, [
        base,
        Configuration("PyTorch alone, another process", place="again"),
        recording("off"),
        recording("python"),
        recording("mixed"),
        recording("mixed", "512KiB"),
        Configuration('PyTorch\'s recorder, stacks="python"', recorder="python"),
        Configuration('PyTorch\'s recorder, stacks="all"', recorder="all"),
    ]


def added(starts: Sequence[Sequence[float]]) -> str:
    """The additional cost over all rounds, and for each start."""
    whole = statistics.median(ratio for start in starts for ratio in start)
    medians = [statistics.median(start) for start in starts]
    percent = [100 * (ratio - 1) for ratio in (whole, min(medians), max(medians))]
    return f"{percent[0]:+.1f} % ({percent[1]:+.1f} to {percent[2]:+.1f})"
