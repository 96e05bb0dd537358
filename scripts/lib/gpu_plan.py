"""Compares the results of `gpumem plan` with runs of the same programs on the existing card."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Optional

from gpu_runs import ANALYZER, body, environment, execute, last_line, recorded

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "workloads" / "plan"
# Programs that need ranks: here each is the only rank.
RANKED = ("ddp", "fsdp1", "fsdp2", "deepspeed_zero2", "deepspeed_zero3")
LAUNCHED = {
    "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29571",
}  # fmt: skip
# The allowed deviation of the card's peak from the planned range.
MOST_OFF = 0.05
MIB = 1 << 20
# PyTorch's abort after a successful run (docs/commands/plan.md).
RACE_AT_EXIT = "terminate called without an active exception"
OUT_OF_MEMORY = ("OutOfMemoryError", "CUDA out of memory")
HEAD = ["program", "verdict", "planned", "measured", "off by", "tensors off by", "reserved off by", "s", ""]

@dataclass
class Compared:
    """A program's plan and its run."""

    name: str
    skipped: str = ""
    faults: list[str] = field(default_factory=list)
    verdict: str = ""
    ran_out: bool = False
    # Lowest and highest planned bytes, and the measured ones, by name.
    planned: dict[str, list[int]] = field(default_factory=dict)
    measured: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    def off(self, what: str) -> Optional[float]:
        """The distance of the measured bytes from the nearer end of the planned range, relative to the measured ones;
        positive if too much was planned."""
        if what not in self.measured or what not in self.planned:
            return None
        (low, high), was = self.planned[what], self.measured[what]
        return (low - was if was < low else min(high - was, 0)) / was

    def judge(self) -> None:
        """Records the contradictions with the card."""
        if self.ran_out != (self.verdict == "does not fit") and self.verdict != "too close to say":
            self.faults.append(f"the plan says that it {self.verdict}, and memory {'ran out' if self.ran_out else 'was enough'}")
        off = self.off("on the card")
        if not self.ran_out and off is not None and abs(off) > MOST_OFF:
            self.faults.append(f"the card's peak is {abs(off):.1%} outside of the plan")


def programs(wanted: Callable[[str], bool]) -> list[Path]:
    """Programs that end by themselves and take no arguments."""
    found = [PROGRAMS / "gpt.py", *sorted((PROGRAMS / "programs").glob("*.py"))]
    return [path for path in found if wanted(path.stem)]


class Checker:
    """Runs programs."""

    def __init__(self, python: str, card: Path, folder: Path, simulated: bool, timeout: float, ends: float):
        self.python, self.card, self.folder, self.simulated = python, card, folder, simulated
        self.timeout, self.ends = timeout, ends

    def compare(self, program: Path) -> Compared:
        """Runs the program with the recorder, then plans it."""
        row = Compared(program.stem)
        began = time.monotonic()
        if self.ends - began < 5:
            row.skipped = "no time left (--limit)"
            return row
        report = self.folder / f"plan-{program.stem}.bin"
        changes = LAUNCHED if program.stem in RANKED else {}
        ended, output, errors = execute(
            [self.python, str(program)], recorded(changes, report, self.simulated), min(self.timeout, self.ends - began)
        )
        row.seconds = time.monotonic() - began
        row.ran_out = ended != 0 and any(words in output + errors for words in OUT_OF_MEMORY)
        missing = [line for line in errors.splitlines() if line.startswith("ModuleNotFoundError")]
        if missing:
            row.skipped = missing[-1]
        elif ended != 0 and not row.ran_out and (RACE_AT_EXIT not in errors or "Traceback" in errors):
            row.skipped = f"it ended with {ended} on the card: {last_line(errors)}"
        elif not report.exists():
            row.faults.append("no capture was written")
        else:
            self._plan(row, program, report)
        return row

    def _plan(self, row: Compared, program: Path, report: Path) -> None:
        words = ["--card", str(self.card), "--against", str(report), "--no-changes", "--format", "json", "--timeout", f"{self.timeout:.0f}"]
        if program.stem in RANKED:
            words += ["--world", "1", "--rank", "0"]
        done = subprocess.run(
            [self.python, "-m", "gpumem", "plan", *words, "--", str(program)], capture_output=True, text=True,
            env=environment({"PYTHONPATH": str(ROOT / "python")}, False),
        )  # fmt: skip
        if not done.stdout:
            row.faults.append(f"no plan: {last_line(done.stderr)}")
            return
        said = body(done.stdout)
        [case] = said["cases"]
        row.verdict = case["verdict"]
        row.planned = {each["what"]: each["planned_bytes"] for each in said["against"]["rows"]}
        row.measured = {each["what"]: each["measured_bytes"] for each in said["against"]["rows"]}
        # The plan includes the card's margins. The measured figure includes memory that NVML reports and no record
        # explains.
        row.planned["on the card"] = case["needed_bytes"]
        row.measured["on the card"] += self._unexplained(report)
        row.judge()

    def _unexplained(self, report: Path) -> int:
        summary = body(
            subprocess.run(
                [str(ANALYZER), "summary", "--format", "json", str(report)],
                capture_output=True, text=True, env=environment({}, False),
            ).stdout
        )  # fmt: skip
        return max((device.get("unexplained_bytes") or 0 for device in summary["devices"]), default=0)


def _share(off: Optional[float]) -> str:
    return "–" if off is None else "0" if off == 0 else f"{off:+.1%}"


def table(rows: list[Compared]) -> str:
    """Planned and measured bytes, one program per line, with the errors below."""
    lines = [HEAD]
    for row in rows:
        if row.skipped or not row.planned:
            continue
        low, high = (f"{size / MIB:.0f}" for size in row.planned["on the card"])
        lines.append([
            row.name, row.verdict, low if low == high else f"{low}–{high}",
            "ran out" if row.ran_out else f"{row.measured['on the card'] / MIB:.0f}", _share(row.off("on the card")),
            _share(row.off("tensors")), _share(row.off("reserved by PyTorch")), f"{row.seconds:.0f}", "DIFFERS" if row.faults else "agrees",
        ])  # fmt: skip
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]
    text = ["  ".join([line[0].ljust(widths[0]), line[1].ljust(widths[1]), *(c.rjust(w) for c, w in zip(line[2:], widths[2:]))]).rstrip() for line in lines]
    text.append("(MiB; off by: from the nearer end of what was planned, in parts of what was measured)")
    promised = [row for row in rows if row.verdict == "fits"]
    broken = sum(row.ran_out for row in promised)
    offs = sorted(abs(off) for row in rows if not row.ran_out and (off := row.off("on the card")) is not None)
    if offs:
        text.append(
            f"{len(promised)} planned as fits, of which {broken} ran out; the card's peak is at most {offs[-1]:.1%} outside, "
            f"{offs[len(offs) // 2]:.1%} in the median"
        )
    for row in rows:
        text += [f"{row.name}: {fault}" for fault in row.faults]
        if row.skipped:
            text.append(f"{row.name}: skipped: {row.skipped}")
    return "\n".join(text)
