"""A comparison with the host's heap: memray's additional cost of a heap allocation, and gpumem's of a tensor."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Optional

from cost import MODULES
from paths import WORKLOADS
from servers import Server, added, alone, recording, running, take_turns


def measure(python: str, memray: Optional[str], rounds: int, loops: int, folder: Path) -> list[str]:
    """A table, or a sentence with the reason why it is missing."""
    if memray is None:
        return ["Not measured: memray could not be installed here (`scripts/lib/environment memray`)."]
    base, by_python, mixed = alone(), recording("python"), recording("mixed")
    heap = Server("memray")
    heap.start([memray, WORKLOADS / "heap_alloc.py"], folder)

    def ask(server: Server) -> dict:
        if server is heap:
            return {how: heap.ask(how, loops) for how in ("off", "python", "native")}
        return {"loop": server.ask("loop", loops, MODULES)}

    with running(python, folder / "heap", base, by_python, mixed):
        answers = take_turns("memray", rounds, [base, by_python, mixed, heap], ask)
    heap.stop()

    def pick(server: Server, what: str) -> list[float]:
        return [answer[what] for answer in answers[server]]

    loop = pick(base, "loop")
    ours = {"python": added(pick(by_python, "loop"), loop), "mixed": added(pick(mixed, "loop"), loop)}
    theirs = {how: added(pick(heap, how), pick(heap, "off")) for how in ("python", "native")}
    return [
        "| | alone, µs | added, µs |",
        "|---|---:|---:|",
        f"| tensor, GPUMEM_STACKS=python | {statistics.median(loop) / 1e3:.2f} | {ours['python'] / 1e3:.2f} |",
        f"| tensor, GPUMEM_STACKS=mixed | {statistics.median(loop) / 1e3:.2f} | {ours['mixed'] / 1e3:.2f} |",
        f"| bytearray, memray | {statistics.median(pick(heap, 'off')) / 1e3:.2f} | {theirs['python'] / 1e3:.2f} |",
        f"| bytearray, memray --native | {statistics.median(pick(heap, 'off')) / 1e3:.2f} | {theirs['native'] / 1e3:.2f} |",
        "",
        f"- What gpumem adds with both stacks is {ours['mixed'] / theirs['native']:.2f} of what memray adds with "
        "`--native`.",
        f"- What gpumem adds with Python stacks is {ours['python'] / theirs['python']:.2f} of what memray adds "
        "without.",
    ]
