"""Measures the parts of an event from inside. libbench_probe.so is called under nested modules, captures
the current stacks with the recorder's own code, and reports a block and its release to the preloaded
library as PyTorch does."""

from __future__ import annotations

from pathlib import Path

from servers import recording, running, take_turns

# Depths of nested modules: about 50 and about 100 native frames.
DEPTHS = (3, 9)


def measure(python: str, rounds: int, count: int, folder: Path) -> list[str]:
    """The table of parts."""
    off, by_python, mixed = recording("off"), recording("python"), recording("mixed")
    columns, heads = [], []
    with running(python, folder, off, by_python, mixed):
        for modules in DEPTHS:
            frames = off.ask("depth", modules)
            heads.append(f"{frames[0]} Python, {frames[1]} native frames")
            answers = take_turns(
                f"parts under {modules} modules", rounds, [off, by_python, mixed],
                lambda server: server.ask("parts", count, modules),
            )
            columns.append(column(answers[off], answers[by_python], answers[mixed]))
    rows = [f"| ns | {' | '.join(heads)} |", f"|---|{'---:|' * len(heads)}"]
    for name in columns[0]:
        cells = " | ".join(figure(column[name]) for column in columns)
        rows.append(f"| {name} | {cells} |")
    return rows


def column(off: list[dict], by_python: list[dict], mixed: list[dict]) -> dict[str, tuple[float, float]]:
    """By part: nanoseconds, and the share of an allocation and its release with both stacks. The minimum of
    all rounds, because the noise of the machine exceeds such small differences."""

    def least(name: str, answers: list[dict]) -> float:
        return min(answer[name] for answer in answers)

    everywhere = off + by_python + mixed
    alone = least("alone", everywhere)
    clock, write = least("clock", everywhere), least("write", everywhere)
    walk, unwind = least("walk", everywhere), least("unwind", everywhere)
    whole = [least("whole", answers) - alone for answers in (off, by_python, mixed)]
    parts = {
        "look at the Python frames": walk,
        "its number": least("python", everywhere) - walk,
        "native unwinding": unwind,
        "its hash and look-up, modules": least("native", everywhere) - unwind,
        "both stacks with ids": least("mixed", everywhere),
        "clock, of one event": clock,
        "ring and counters, of one event": write,
        # Two events: two clock reads and two records.
        "live map and hook, of an allocation and its release": whole[0] - 2 * clock - 2 * write,
        "**whole of an allocation and its release, off**": whole[0],
        "**the same, python**": whole[1],
        "**the same, mixed**": whole[2],
    }
    return {name: (taken, taken / whole[2]) for name, taken in parts.items()}


def figure(value: tuple[float, float]) -> str:
    nanoseconds, portion = value
    return f"{nanoseconds:.0f} ({100 * portion:.0f} %)"
