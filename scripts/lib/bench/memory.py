"""What memory the library takes for itself when a program has very many stacks."""

from __future__ import annotations

from pathlib import Path

from servers import alone, recording, running
from threads import checked

# MiB.
BUDGET = 64
KINDS = {"RssAnon": "its own", "RssFile": "of files: code, counters and ring"}


def measure(python: str, stacks: int, folder: Path) -> list[str]:
    """The table of memory: the same program with the library and without, the difference."""
    base, mixed = alone(), recording("mixed")
    batch = max(1, stacks // 100)

    def difference(kind: str, one: dict, other: dict) -> float:
        return (one[kind] - other[kind]) / 1024

    with running(python, folder, base, mixed):
        samples = []
        for first in range(0, stacks + batch, batch):
            taken = []
            for server in (base, mixed):
                server.ask("churn", first, batch)
                taken.append(server.ask("memory"))
            samples.append({kind: difference(kind, taken[1], taken[0]) for kind in taken[0]})
    disk = mixed.capture.stat().st_size / 2**20
    heads = ["after the first", "at the end", "most at any sample"]
    rows = [f"| MiB | {' | '.join(heads)} |", "|---|---:|---:|---:|"]
    for kind, label in KINDS.items():
        taken = [sample[kind] for sample in samples]
        rows.append(f"| {label} | {taken[0]:.1f} | {taken[-1]:.1f} | {max(taken):.1f} |")
    both = [sum(sample[kind] for kind in KINDS) for sample in samples]
    peak = max(sample["VmHWM"] for sample in samples)
    rows.append(f"| **together** | {both[0]:.1f} | {both[-1]:.1f} | {max(both):.1f} |")
    return rows + [
        "",
        f"{stacks:,} Python stacks and as many native ones, each of which reports a block and its release. "
        f"Highest between samples: {peak:.1f} MiB (budget: {BUDGET}). The capture is {disk:.0f} MiB on disk.",
        "",
        checked(mixed.capture),
    ]
