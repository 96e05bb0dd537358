"""Compares programs with and without the recorder: output, exit status, time of a step."""

from __future__ import annotations

import concurrent.futures
import functools
import operator
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Optional

from gpu_runs import ANALYZER, body, environment, execute, last_line, recorded

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "workloads" / "gpu"
# The number of concurrent programs; none of them is timed.
AT_ONCE = 4
ROUNDS = 5
STEPS = 120
# Times, and a tool's own output: process ids, statistics.
TOOLS = ("STEP_US", "=====", "==PROF==", "==WARNING==", "USDT:")


@dataclass
class Case:
    """A program that must run in the same way with the recorder."""

    name: str
    arguments: list[str]
    tool: list[str] = field(default_factory=list)
    alone: bool = False


CASES = [
    Case("training", ["--steps", "200"]),
    Case("training, workers load", ["--steps", "60", "--loader"]),
    Case("torch.profiler", ["--steps", "10", "--profiler"]),
    Case("CUDA graph", ["--steps", "20", "--graph"]),
    Case("torch.compile", ["--steps", "20", "--compile"]),
    Case("compute-sanitizer", ["--steps", "1", "--small"], ["compute-sanitizer", "--tool", "memcheck", "--error-exitcode", "9"]),
    Case("ncu", ["--steps", "1", "--small"], ["ncu", "--launch-count", "3", "--log-file", "/dev/null"]),
    Case("out of memory", ["--out-of-memory"], alone=True),
]

# Variables for the recorder (None: without it), and the program's arguments.
TIMED: list[tuple[str, Optional[dict[str, str]], list[str]]] = [
    ("without", None, []),
    ("gpumem, stacks off", {"GPUMEM_STACKS": "off"}, []),
    ("gpumem, Python stacks", {"GPUMEM_STACKS": "python"}, []),
    ("gpumem", {}, []),
    ("PyTorch's recorder, all stacks", None, ["--history"]),
]


class Run(NamedTuple):
    """A program's exit status and output."""

    ended: object
    output: str
    errors: str


class Guests:
    """Runs the cases."""

    def __init__(self, python: str, folder: Path, simulated: bool, timeout: float):
        self.python, self.folder, self.simulated, self.timeout = python, folder, simulated, timeout

    def command(self, case: Case) -> list[str]:
        """The command of a case."""
        return [*case.tool, self.python, str(PROGRAMS / "guest.py"), *case.arguments]

    def report(self, case: Case) -> Path:
        """The path of its capture."""
        return self.folder / f"guest-{case.name.replace(', ', '-').replace(' ', '_')}.bin"

    def compare(self, case: Case) -> list[str]:
        """Runs the program without the recorder several times, and once with it. Returns the differences, one line
        each, except those between the runs without it."""
        if case.tool and shutil.which(case.tool[0]) is None:
            return [f"skipped: no {case.tool[0]} on this machine"]
        self.plain(case)  # fills the caches of compilers
        before = [self.plain(case) for _ in range(2)]
        if before[0].ended != 0:
            return [f"skipped: without the recorder it ends with {before[0].ended}: {last_line(before[0].errors)}"]
        ours = Run(*execute(self.command(case), recorded({}, self.report(case), self.simulated), self.timeout))
        if differences(before, ours):
            before += [self.plain(case) for _ in range(3)]
        self.report(case).with_suffix(".txt").write_text("\n".join(f"--- ended with {run.ended}\n{run.output}\n--- stderr\n{run.errors}" for run in [*before, ours]))
        return differences(before, ours) + self.judged(self.report(case))

    def plain(self, case: Case) -> Run:
        """A run without the recorder."""
        return Run(*execute(self.command(case), environment({}, self.simulated), self.timeout))

    def judged(self, report: Path) -> list[str]:
        """The problems of a capture: not exact, lost events."""
        if not report.exists():
            return ["no capture was written"]
        done = subprocess.run(
            [str(ANALYZER), "summary", "--format", "json", str(report)], capture_output=True, text=True, env=environment({}, False)
        )
        if not done.stdout:
            return [f"the capture cannot be read: {last_line(done.stderr)}"]
        summary = body(done.stdout)
        wrong = [] if summary["exact"] else ["not exact: " + "; ".join(summary["missing"][:3])]
        return wrong + ([f"{summary['lost_events']} events lost"] if summary["lost_events"] else [])

    def killed(self) -> list[str]:
        """Sends SIGKILL in the middle of the training: the capture must have all events until then."""
        case = Case("killed", ["--steps", "4000", "--beat"])
        process = subprocess.Popen(
            self.command(case), env=recorded({}, self.report(case), self.simulated), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        last = ""
        for line in process.stdout:
            last = line.strip()
            if last == "step 100":
                break
        process.send_signal(signal.SIGKILL)
        process.wait()
        if last != "step 100":
            return ["skipped: it ended before it was killed"]
        done = subprocess.run([str(ANALYZER), "check", str(self.report(case))], capture_output=True, text=True, env=environment({}, False))
        say(f"killed: check says {last_line(done.stdout)}")
        return self.judged(self.report(case))

    def all(self, wanted) -> dict[str, list[str]]:
        """The differences of every case."""
        found: dict[str, list[str]] = {}
        together = [case for case in CASES if not case.alone and wanted(case.name)]
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            waiting = {pool.submit(self.compare, case): case.name for case in together}
            if wanted("killed"):
                waiting[pool.submit(self.killed)] = "killed"
            for each in concurrent.futures.as_completed(waiting):
                found[waiting[each]] = each.result()
                say(f"{waiting[each]}: {found[waiting[each]] or 'the same'}")
        for case in CASES:
            if case.alone and wanted(case.name):
                found[case.name] = self.compare(case)
        return found

    def times(self, rounds: int, ends: float) -> dict[str, list[float]]:
        """Microseconds of a step, one figure per round; no round begins after `ends`, a time.monotonic()."""
        result: dict[str, list[float]] = {name: [] for name, _, _ in TIMED}
        for _ in range(rounds):
            if time.monotonic() > ends:
                break
            for name, variables, arguments in TIMED:
                report = self.folder / f"timed-{name.replace(', ', '-').replace(' ', '_')}.bin"
                report.unlink(missing_ok=True)
                env = environment({}, self.simulated) if variables is None else recorded(variables, report, self.simulated)
                case = Case(name, ["--steps", str(STEPS), *arguments])
                _, _, errors = execute(self.command(case), env, self.timeout)
                result[name] += [float(line.split()[1]) for line in errors.splitlines() if line.startswith("STEP_US")]
                say(f"{name}: {result[name][-1:]} us a step")
        return result


def say(text: str) -> None:
    """Prints a message about the current work."""
    print(f"== {text}", file=sys.stderr, flush=True)


def differences(before: list[Run], ours: Run) -> list[str]:
    """The differences of a run from the runs before it, if those agree: lines that each of them has equally often, and
    the exit status."""
    found = [] if ours.ended in [run.ended for run in before] else [f"it ends with {ours.ended}, not with {before[0].ended}: {last_line(ours.errors)}"]
    for stream, each in (("stdout", lambda run: run.output), ("stderr", lambda run: run.errors)):
        counts = [Counter(line for line in each(run).splitlines() if not line.startswith(TOOLS)) for run in before]
        own = Counter(each(ours).splitlines())
        always = functools.reduce(operator.and_, counts)
        lines = [f"{stream} lacks {line}"[:200] for line in (always - own).elements()]
        if always == counts[0] == counts[-1]:
            lines += [f"{stream} has {line}"[:200] for line in (own - always).elements() if not line.startswith(TOOLS)]
        found += lines[:12] + ([f"{len(lines) - 12} more lines of {stream} differ"] if len(lines) > 12 else [])
    return found


def told(found: dict[str, list[str]]) -> str:
    """A line for each case, with its differences below it."""
    lines = []
    for name, what in found.items():
        skipped = bool(what) and what[0].startswith("skipped")
        lines.append(f"{name:26} {'–' if skipped else 'DIFFERS' if what else 'the same'}")
        lines += [f"    {line}" for line in what]
    return "\n".join(lines)


def times_told(times: dict[str, list[float]]) -> str:
    """The medians, compared with the first."""
    lines, base = [], statistics.median(times["without"] or [float("nan")])
    for name, values in times.items():
        if values:
            median = statistics.median(values)
            lines.append(f"{name:32} {median:9.1f} us a step  {median / base:6.3f}  ({min(values):.1f}–{max(values):.1f}, {len(values)} runs)")
    return "\n".join(lines)
