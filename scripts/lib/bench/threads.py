"""What an event costs while other threads report too, and whether anything is lost or out of order."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from pathlib import Path

from paths import ANALYZER
from servers import ratio, recording, running

THREADS = (1, 2, 4, 8)
DEVICES = (("a device each", 8), ("one device for all", 1))


def measure(python: str, rounds: int, count: int, folder: Path) -> list[str]:
    """The table of threads, and what gpumem-analyze check says of the capture."""
    mixed = recording("mixed")
    answers: dict[tuple, list] = {}
    with running(python, folder, mixed):
        for number in range(rounds + 1):
            for _, devices in DEVICES:
                for threads in THREADS:
                    answer = mixed.ask("threads", threads, devices, count)
                    if number:  # round 0 warms up
                        answers.setdefault((threads, devices), []).append(answer)
    cores = len(os.sched_getaffinity(0))
    rows = [
        "| threads | " + " | ".join(f"{name}, µs a pair | × one thread | by the clock" for name, _ in DEVICES) + " |",
        "|---:|" + "---:|---:|---:|" * len(DEVICES),
    ]
    for threads in THREADS:
        cells = []
        for _, devices in DEVICES:
            spent, passed = zip(*answers[threads, devices])
            alone_spent, alone_passed = zip(*answers[1, devices])
            # What has passed for a pair, were the cores that the threads have one after the other.
            by_clock = [time * min(threads, cores) for time in passed]
            cells += [
                f"{statistics.median(spent) / 1e3:.2f}", f"{ratio(spent, alone_spent):.2f}",
                f"{ratio(by_clock, alone_passed):.2f}",
            ]
        rows.append(f"| {threads} | {' | '.join(cells)} |")
    return rows + ["", checked(mixed.capture)]


def checked(capture: Path) -> str:
    """One sentence: events, how many were lost, and whether their order agrees with the counters."""
    done = subprocess.run(
        [ANALYZER, "check", "--format", "json", capture], stdout=subprocess.PIPE, text=True
    )
    found = json.loads(done.stdout)
    order = {True: "agrees", False: "**does not agree**", None: "could not be compared"}
    return (
        f"`gpumem-analyze check` of that capture: exit code {done.returncode}, {found['events']:,} events "
        f"and {found['definitions']:,} definitions, "
        f"{found['lost_events']} lost; a replay in their order {order[found['counters_agree']]} with the counters."
    )
