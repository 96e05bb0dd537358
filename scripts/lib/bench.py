"""What scripts/bench runs: see there. Standard library only; any Python from 3.9 on."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

ROOT = Path(__file__).resolve().parents[2]
WORKLOADS = ROOT / "tests" / "workloads"
LIBRARY = ROOT / "target" / "release" / "libgpumem.so"
ANALYZER = ROOT / "target" / "release" / "gpumem-analyze"
WITH_SIMULATOR = ROOT / "scripts" / "with-simulator"


@dataclass
class Configuration:
    """One way to run the same program: `stacks` is GPUMEM_STACKS (None: without the library),
    `recorder` what PyTorch's own recorder does."""

    label: str
    stacks: Optional[str] = None
    recorder: str = "off"
    loop: list[float] = field(default_factory=list)
    step: list[float] = field(default_factory=list)
    process: Optional[subprocess.Popen] = None

    def start(self, python: str, folder: Path) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("GPUMEM_", "PYTORCH_"))}
        if self.stacks is not None:
            environment.update(
                LD_PRELOAD=str(LIBRARY), GPUMEM_STACKS=self.stacks, GPUMEM_QUIET="1",
                GPUMEM_OUTPUT=str(folder / f"{self.stacks}.bin"),
            )
        self.process = subprocess.Popen(
            [WITH_SIMULATOR, "--memory", "16GiB", python, WORKLOADS / "bench_alloc.py", self.recorder],
            env=environment, cwd=folder, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )

    def ask(self, command: str, count: int) -> float:
        """Nanoseconds per round of the command."""
        self.process.stdin.write(f"{command} {count}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"bench: the process of {self.label!r} ended ({self.process.wait()})")
        return json.loads(answer)

    def stop(self) -> None:
        self.process.stdin.close()
        if self.process.wait(timeout=60) != 0:
            raise SystemExit(f"bench: the process of {self.label!r} failed")


def configurations() -> list[Configuration]:
    return [
        Configuration("PyTorch alone"),
        Configuration("gpumem, GPUMEM_STACKS=off", stacks="off"),
        Configuration("gpumem, GPUMEM_STACKS=python", stacks="python"),
        Configuration("gpumem, GPUMEM_STACKS=mixed", stacks="mixed"),
        Configuration('PyTorch\'s recorder, stacks="python"', recorder="python"),
        Configuration('PyTorch\'s recorder, stacks="all"', recorder="all"),
    ]


def progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K   {text}", end="", file=sys.stderr, flush=True)


def say(text: str) -> None:
    progress("")
    print(f"== {text}", file=sys.stderr, flush=True)


def measure_cost(python: str, rounds: int, loops: int, steps: int, folder: Path) -> list[Configuration]:
    """All configurations side by side, taking turns."""
    all_of_them = configurations()
    for configuration in all_of_them:
        configuration.start(python, folder)
    for number in range(rounds + 1):
        progress(f"round {number} of {rounds}")
        # Each round starts with another one, so that none always follows the same.
        turn = number % len(all_of_them)
        for configuration in all_of_them[turn:] + all_of_them[:turn]:
            loop, step = configuration.ask("loop", loops), configuration.ask("step", steps)
            if number:  # round 0 warms up
                configuration.loop.append(loop)
                configuration.step.append(step)
    for configuration in all_of_them:
        configuration.stop()
    return all_of_them


def added(configuration: Configuration, alone: Configuration, what: str) -> float:
    """Median over the rounds of what the configuration took more than PyTorch alone, in ns."""
    return statistics.median(
        mine - base for mine, base in zip(getattr(configuration, what), getattr(alone, what))
    )


def ratio(configuration: Configuration, alone: Configuration, what: str) -> float:
    return statistics.median(
        mine / base for mine, base in zip(getattr(configuration, what), getattr(alone, what))
    )


def cost_table(measured: list[Configuration]) -> list[str]:
    alone = measured[0]
    rows = [
        "| | alloc + free, µs | added, µs | training step | added |",
        "|---|---:|---:|---:|---:|",
    ]
    for configuration in measured:
        first = configuration is alone
        rows.append(
            f"| {configuration.label} | {statistics.median(configuration.loop) / 1e3:.2f} | "
            + ("" if first else f"{added(configuration, alone, 'loop') / 1e3:.2f}")
            + f" | {statistics.median(configuration.step) / 1e6:.2f} ms | "
            + ("" if first else f"{100 * (ratio(configuration, alone, 'step') - 1):+.1f} %")
            + " |"
        )
    return rows


def ratios(measured: list[Configuration]) -> list[str]:
    alone, _, python, mixed, torch_python, torch_all = measured
    cost = {id(c): added(c, alone, "loop") for c in measured}
    return [
        f"- What gpumem adds with Python stacks is {cost[id(python)] / cost[id(torch_python)]:.2f} of what "
        'PyTorch\'s recorder adds with `stacks="python"`.',
        f"- What gpumem adds with both stacks is {cost[id(mixed)] / cost[id(torch_all)]:.2f} of what "
        'PyTorch\'s recorder adds with `stacks="all"`.',
    ]


def measure_analysis(python: str, steps: int, repeats: int, folder: Path) -> list[str]:
    """Records a real training and times the views on its capture."""
    capture = folder / "training.bin"
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("GPUMEM_", "PYTORCH_"))}
    environment.update(LD_PRELOAD=str(LIBRARY), GPUMEM_OUTPUT=str(capture), GPUMEM_QUIET="1")
    subprocess.run(
        [WITH_SIMULATOR, "--memory", "16GiB", python, WORKLOADS / "train.py", "--no-cudnn",
         "--steps", str(steps), "--batch", "8"],
        env=environment, cwd=folder, check=True, stdout=subprocess.DEVNULL,
    )
    summary = json.loads(
        subprocess.run(
            [ANALYZER, "summary", "--format", "json", capture], check=True, stdout=subprocess.PIPE
        ).stdout
    )
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
        f"{size / 2**20:.1f} MiB on disk, of which the head (counters and ring) is {head / 2**20:.1f} MiB: "
        f"**{(size - head) / events:.2f} bytes an event** in pages.",
    ]
    return rows


def pages_offset(header: bytes) -> int:
    """Where the pages start (capture/SPEC.md: static header, offset 120)."""
    return int.from_bytes(header[120:128], "little")


def machine() -> str:
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    cores = len(os.sched_getaffinity(0))
    libc = " ".join(platform.libc_ver())
    return f"{model}, {cores} cores, {platform.system()} {platform.machine()}, {libc}, CPython {platform.python_version()}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Measures gpumem; see scripts/bench.")
    parser.add_argument("--python", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--output", type=Path, help="default: docs/measured/bench.md")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, to target/bench.md")
    options = parser.parse_args()
    kept = Path("target/bench.md") if options.quick else Path("docs/measured/bench.md")
    output = options.output or ROOT / kept
    rounds, loops, steps, training, repeats = options.rounds, 20_000, 30, 2200, 3
    if options.quick:
        rounds, loops, steps, training, repeats = 3, 2000, 5, 50, 1

    folder = Path(tempfile.mkdtemp(prefix="gpumem-bench-"))
    try:
        say(f"cost of an event: {len(configurations())} configurations, {rounds} rounds")
        measured = measure_cost(options.python, rounds, loops, steps, folder)
        say(f"recording and analysing a training of {training} steps")
        analysis = measure_analysis(options.python, training, repeats, folder)
    finally:
        progress("")
        shutil.rmtree(folder)

    lines = [
        "# Benchmark",
        "",
        f"`scripts/bench`, {datetime.date.today().isoformat()}, on {machine()}. PyTorch 2.15.0 on the simulator, where",
        "kernels take no time: on a card the same events weigh less. Medians of "
        f"{rounds} rounds in which the configurations took turns.",
        "",
        "## Cost of recording",
        "",
        f"*alloc + free*: one tensor of 1 KiB from PyTorch's cache and its free (two events), {loops:,} a round, under "
        "nine nested `nn.Module`s.",
        f"*training step*: a transformer block with Adam, {steps} a round.",
        "",
        *cost_table(measured),
        "",
        *ratios(measured),
        "",
        "## Reading a capture",
        "",
        *analysis,
        "",
    ]
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text("\n".join(lines))
    print("\n".join(lines))
    say(f"written to {output}")


if __name__ == "__main__":
    main()
