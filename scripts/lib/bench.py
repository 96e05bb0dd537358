"""The measuring half of scripts/bench: interleaved rounds, medians, ratios within this run."""

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "target/release/libgpumem.so"
ANALYZER = ROOT / "target/release/gpumem-analyze"
SIMULATOR = ROOT / "scripts/with-simulator"
WORKLOADS = ROOT / "tests/workloads"

# What is compared: name, value of GPUMEM_STACKS (None: not preloaded), PyTorch's recorder.
MODES = [
    ("not loaded", None, None),
    ("gpumem, GPUMEM_STACKS=off", "off", None),
    ("gpumem, GPUMEM_STACKS=python", "python", None),
    ("gpumem, GPUMEM_STACKS=mixed", "mixed", None),
    ('PyTorch recorder, stacks="python"', None, "python"),
    ('PyTorch recorder, stacks="all"', None, "all"),
]


def run(python, script, arguments, stacks, folder):
    environment = dict(os.environ, GPUMEM_QUIET="1", GPUMEM_OUTPUT=str(folder / "bench-%p.bin"))
    environment.pop("LD_PRELOAD", None)
    if stacks is not None:
        environment.update(LD_PRELOAD=str(LIBRARY), GPUMEM_STACKS=stacks)
    done = subprocess.run(
        [str(SIMULATOR), python, str(WORKLOADS / script), *arguments],
        env=environment, cwd=folder, capture_output=True, text=True,
    )
    if done.returncode:
        sys.exit(f"bench: {script} failed (exit {done.returncode}):\n{done.stderr}")
    return done.stdout


def table(head, rows):
    widths = [max(len(str(row[i])) for row in [head, *rows]) for i in range(len(head))]
    def line(row):
        cells = [str(c).ljust(w) if i == 0 else str(c).rjust(w) for i, (c, w) in enumerate(zip(row, widths))]
        return "| " + " | ".join(cells) + " |"
    rule = "|" + "|".join("-" * (w + 1) + (":" if i else "-") for i, w in enumerate(widths)) + "|"
    return "\n".join([line(head), rule, *map(line, rows)])


def events(python, rounds, folder):
    taken = {name: [] for name, _, _ in MODES}
    for number in range(rounds):
        for name, stacks, recorder in MODES:
            print(f"   round {number + 1} of {rounds}: {name}", file=sys.stderr, flush=True)
            arguments = ["--recorder", recorder] if recorder else []
            taken[name].append(json.loads(run(python, "bench_events.py", arguments, stacks, folder)))
            for capture in folder.glob("bench-*.bin"):
                capture.unlink()
    median = {
        name: {key: statistics.median(r[key] for r in results) for key in results[0]}
        for name, results in taken.items()
    }
    base = median["not loaded"]
    added = {name: result["pair_ns"] - base["pair_ns"] for name, result in median.items()}
    references = [max(added[f'PyTorch recorder, stacks="{kind}"'], 1) for kind in ("python", "all")]
    rows = []
    for name, _, _ in MODES:
        extra = added[name]
        slower = median[name]["step_ms"] / base["step_ms"] * 100 - 100
        rows.append([
            name, f"{median[name]['pair_ns']:,.0f}", f"{extra:,.0f}" if extra else "–",
            *(f"{extra / reference:.2f}" if extra else "–" for reference in references),
            f"{median[name]['step_ms']:.2f}", f"{slower:+.1f} %",
        ])
    head = ["", "alloc + free, ns", "added, ns", "÷ PyTorch python", "÷ PyTorch all", "step, ms", "step"]
    return table(head, rows), int(base["allocations_per_step"])


def analysis(python, wanted, folder):
    print(f"   capture of {wanted:,} events", file=sys.stderr, flush=True)
    run(python, "bench_capture.py", [str(wanted)], "python", folder)
    (capture,) = folder.glob("bench-*.bin")
    summary = json.loads(subprocess.run(
        [str(ANALYZER), "summary", "--format", "json", str(capture)], capture_output=True, text=True, check=True
    ).stdout)
    count = summary["events"]
    rows = []
    for label, command in [
        ("summary", ["summary", str(capture)]),
        ("lines", ["lines", str(capture)]),
        ("flamegraph", ["flamegraph", "-o", str(folder / "bench.svg"), str(capture)]),
    ]:
        seconds = []
        for _ in range(3):
            began = time.perf_counter()
            subprocess.run([str(ANALYZER), *command], stdout=subprocess.DEVNULL, check=True)
            seconds.append(time.perf_counter() - began)
        best = statistics.median(seconds)
        rows.append([label, f"{best:.2f}", f"{count / best / 1e6:.2f}"])
    size = capture.stat().st_size
    blocks = capture.stat().st_blocks * 512
    text = table(["gpumem-analyze", "seconds", "M events/s"], rows)
    with open(capture, "rb") as file:  # capture/SPEC.md: the offset of the pages is at 120
        pages = size - int.from_bytes(file.read(128)[120:128], "little")
    facts = (
        f"{count:,} events, exact: {summary['exact']}, {summary['lost_events']} lost; "
        f"{pages / count:.2f} bytes an event in the pages; "
        f"{size:,} bytes with head and ring ({blocks:,} on disk), {size / count:.2f} an event in all"
    )
    return text, facts


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench")
    parser.add_argument("python")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--no-write", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gpumem-bench-") as name:
        folder = Path(name)
        cost, allocations = events(options.python, options.rounds, folder)
        speed, facts = analysis(options.python, options.events, folder)
    text = f"""# scripts/bench

`scripts/bench --rounds {options.rounds} --events {options.events}` on {datetime.date.today()}, {os.cpu_count()} cores, \
{platform.machine()}, Linux {platform.release().split('-')[0]}. Real PyTorch 2.15 on the simulated driver, where kernels take no
time: on a GPU the same cost is spread over longer steps. Medians of {options.rounds} interleaved rounds, each mode in a
process of its own. Compare within a table; the machine is noisy.

## Cost of a tensor event
An allocation and its free at {20} Python frames plus PyTorch's own, and a training step of a four-block
transformer ({allocations} allocations).

{cost}

## Reading a capture
{facts}.

{speed}
"""
    print(text)
    if not options.no_write:
        target = ROOT / "docs/measured/bench.md"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        print(f"written to {target.relative_to(ROOT)}", file=sys.stderr)


if __name__ == "__main__":
    main()
