"""gpumem's categories against torch.profiler's, block by block, in one run of a program of
tests/workloads/categories.py.

    python tests/lib/profiled.py PYTHON PROGRAM ...

prints a table: blocks and bytes at the last end of a forward and at the last end of a step."""

import json
import sqlite3
import sys
import tempfile
from collections import Counter
from contextlib import closing
from pathlib import Path

import harness

# The framework's own lists that have a block, the most specific first.
LISTS = ("parameter", "buffer", "gradient", "optimizer state", "saved")


def moments(folder):
    """At each mark, in order: {address: (bytes, category)} of the tensors that are live."""
    with closing(sqlite3.connect(folder / "events.sqlite")) as database:
        rows = database.execute("SELECT kind, level, ptr, bytes, category FROM events ORDER BY seq").fetchall()
    live = {}
    for kind, level, ptr, size, category in rows:
        if kind == "mark":
            yield dict(live)
        elif (kind, level) == ("alloc", "tensor"):
            live[ptr] = (size, category)
        elif (kind, level) == ("free", "tensor"):
            live.pop(ptr, None)


def run(python, program, folder):
    """At each moment: (forward or step, [(bytes, our category, the profiler's, the framework's list or "")])."""
    done = harness.simulate(
        [python, harness.WORKLOADS / "profiler_categories.py", program],
        preload=True, cwd=folder, env={"PYTHONPATH": str(harness.ROOT / "python")},
    )
    harness.analyze("export", "sqlite", "-o", folder / "events.sqlite", folder / "report.bin")
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    both = []
    for moment, live in zip(said, moments(folder), strict=True):
        theirs = {ptr: (size, category or "none") for ptr, size, category in moment["blocks"]}
        assert {ptr: size for ptr, (size, _) in theirs.items()} == {ptr: size for ptr, (size, _) in live.items()}
        blocks = []
        for ptr, (size, category) in live.items():
            held = next((name for name in LISTS if ptr in moment[name]), "")
            blocks.append((size, category, theirs[ptr][1], held))
        both.append((moment["kind"], blocks))
    return both


def rows(both):
    """Blocks and bytes at the last forward and at the last step, by our category, the profiler's and the framework's."""
    last = dict(both)
    counts, sizes = Counter(), Counter()
    for kind, blocks in last.items():
        for size, *cell in blocks:
            counts[kind, *cell] += 1
            sizes[kind, *cell] += size
    for cell in sorted({key[1:] for key in counts}):
        figures = [f"{counts[kind, *cell]} | {sizes[kind, *cell]:,}" if counts[kind, *cell] else " | " for kind in ("forward", "step")]
        yield f"| {cell[0]} | {cell[1]} | {cell[2]} | {' | '.join(figures)} |"


def main():
    python, *programs = sys.argv[1:]
    for program in programs:
        with tempfile.TemporaryDirectory() as folder:
            print(f"\n{program}:\n\n| ours | profiler's | framework | forward: blocks | bytes | step: blocks | bytes |")
            print("|---|---|---|---:|---:|---:|---:|")
            print("\n".join(rows(run(python, program, Path(folder)))), flush=True)


if __name__ == "__main__":
    main()
