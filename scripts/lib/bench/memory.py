"""The memory that the library itself uses when a program has very many stacks."""

from __future__ import annotations

from pathlib import Path

from servers import alone, recording, running
from threads import checked

# MiB.
BUDGET = 64


def measure(python: str, stacks: int, folder: Path) -> list[str]:
    """The table of memory: the same program with the library and without, the difference."""
    base, mixed = alone(), recording("mixed")
    batch = max(1, stacks // 100)
    with running(python, folder, base, mixed):
        samples = []
        for first in range(0, stacks + batch, batch):
            taken = []
            for server in (base, mixed):
                server.ask("churn", first, batch)
                taken.append(server.ask("memory"))
            samples.append({kind: (taken[1][kind] - taken[0][kind]) / 1024 for kind in taken[0]})
    disk = mixed.capture.stat().st_size / 2**20
    others = [sample["files"] - sample["own_files"] for sample in samples]
    both = [sample["private"] + sample["own_files"] + sample["ring"] for sample in samples]
    highest = max(sample["highest"] - other for sample, other in zip(samples, others))
    columns = {
        "private memory: tables, buffers": [sample["private"] for sample in samples],
        "its code": [sample["own_files"] for sample in samples],
        "ring and counters, in shared memory": [sample["ring"] for sample in samples],
        f"**together** (budget: {BUDGET})": both,
        "also pages of the program's libraries: their unwind tables": others,
    }
    rows = ["| MiB | after the first | at the end | most at any sample |", "|---|---:|---:|---:|"]
    rows += [
        f"| {name} | {taken[0]:.1f} | {taken[-1]:.1f} | {max(taken):.1f} |"
        for name, taken in columns.items()
    ]
    return rows + [
        "",
        f"{stacks:,} Python stacks and as many native ones. Each reports a block and its release, with a sample "
        f"after every hundredth. The highest value at any moment, also between samples: {highest:.1f} MiB. The capture is "
        f"{disk:.0f} MiB on disk.",
        "",
        checked(mixed.capture),
    ]
