"""Measures how fast the views read a capture, and the size of an event on disk."""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from pathlib import Path

from paths import ANALYZER, LIBRARY, WITH_SIMULATOR, WORKLOADS
from progress import progress
from servers import clean_environment


def measure(python: str, steps: int, repeats: int, folder: Path) -> list[str]:
    """Records a real training and times the views on its capture."""
    capture = folder / "training.bin"
    environment = clean_environment(
        LD_PRELOAD=str(LIBRARY), GPUMEM_OUTPUT=str(capture), GPUMEM_QUIET="1"
    )
    subprocess.run(
        [WITH_SIMULATOR, "--memory", "16GiB", python, WORKLOADS / "train.py",
         "--steps", str(steps), "--batch", "8"],
        env=environment, cwd=folder, check=True, stdout=subprocess.DEVNULL,
    )
    summary = json.loads(
        subprocess.run(
            [ANALYZER, "summary", "--format", "json", capture], check=True, stdout=subprocess.PIPE
        ).stdout
    )["data"]
    events, size = summary["events"], capture.stat().st_size
    views = {
        "summary": ["summary"], "lines": ["lines"],
        "flamegraph": ["flamegraph", "-o", folder / "peak.svg"],
    }
    rows = ["| view | seconds | events/s |", "|---|---:|---:|"]
    total = 0.0
    for name, command in views.items():
        taken = []
        for _ in range(repeats):
            progress(f"analysing: {name}")
            began = time.perf_counter()
            subprocess.run([ANALYZER, *command, capture], check=True, stdout=subprocess.DEVNULL)
            taken.append(time.perf_counter() - began)
        seconds = statistics.median(taken)
        total += seconds
        rows.append(f"| {name} | {seconds:.2f} | {events / seconds / 1e6:.2f} M |")
    rows.append(f"| all three, one after the other | {total:.2f} | {events / total / 1e6:.2f} M |")
    with open(capture, "rb") as file:
        head = pages_offset(file.read(128))
    rows += [
        "",
        f"The capture: a training of {steps} steps, {events:,} events ({summary['lost_events']} lost), "
        f"{size / 2**20:.1f} MiB on disk, of which the head is {head / 2**20:.1f} MiB: "
        f"**{(size - head) / events:.2f} bytes an event** in pages.",
    ]
    return rows


def pages_offset(header: bytes) -> int:
    """The offset of the pages (capture/SPEC.md: static header, offset 120)."""
    return int.from_bytes(header[120:128], "little")
