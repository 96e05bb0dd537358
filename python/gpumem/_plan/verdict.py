"""Decides whether a program fits a card, by two runs: one with the lowest estimate of the card's memory and the
highest of the program's, and one with the opposite ends."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

from .._reading.analysis import Unreadable, analyzed
from .changes import Change
from .dry_run import Device, Failed, Run
from .form import Peak, Word
from .search import Found

FITS: Word = "fits"
DOES_NOT_FIT: Word = "does not fit"
TOO_CLOSE: Word = "too close to say"
# Rows of a ledger that are not exact. Requests of PyTorch's allocator and of the program itself are exact.
CONTEXT, CODE, STREAMS, LIBRARY, MARGIN = "context", "module", "streams", "library", "other_processes"
# Rows that are not part of CUDA's total.
BESIDES = "driver_reserved"


@dataclass(frozen=True)
class Ends:
    """The range of a card: settings of the simulated card with which a program has the least room, and the most."""

    name: str
    # As part of a file's name.
    file_name: str
    worse: Mapping[str, str]
    better: Mapping[str, str]
    # CUDA's total bytes, at least and at most.
    total: Sequence[int]
    # Memory of kernel code beyond what the simulated card counts, at least and at most: in the runs it belongs to
    # another process.
    margin: Sequence[int] = (0, 0)
    # The sources of the bytes of the context and of that code: measured, published, assumed.
    context: str = "assumed"
    code: str = "assumed"

    def known(self, kind: str) -> str:
        """The accuracy of a ledger's row."""
        if kind == CONTEXT:
            return self.context
        if kind == MARGIN:
            return self.code
        return "assumed" if kind in (CODE, STREAMS, LIBRARY) else "exact"


@dataclass(frozen=True)
class Case:
    """A program on a card, possibly as one rank of many."""

    card: Ends
    rank: Optional[int] = None

    @property
    def name(self) -> str:
        return self.card.name if self.rank is None else f"{self.card.name}, rank {self.rank}"


@dataclass(frozen=True)
class Tried:
    """A change, and the program's need with it; None if it does not fit either. Or the reason why it could not be
    tried."""

    text: str
    needed: Optional[int]
    failed: Optional[str] = None


@dataclass(frozen=True)
class Verdict:
    """The verdict on a case."""

    case: Case
    verdict: Word
    # The runs at both ends.
    worse: Run
    better: Run
    # Whether it worked with the least room, but depended on the addresses of blocks.
    only_just: bool = False
    # For a search: the largest number that fits.
    largest: Optional[Found] = None
    # The least memory with which it works, if requested.
    smallest: Optional[int] = None
    # For a program that does not fit: the changes that were tried with the least room.
    tried: Sequence[Tried] = ()

    @property
    def shown(self) -> Run:
        """The run of the breakdown: the one that fitted, if there is one."""
        return self.worse if self.worse.went_well else self.better

    @property
    def needed(self) -> Sequence[int]:
        """Bytes on the fullest GPU at once: the least and the most that are considered possible. For a failed run,
        the bytes until then."""
        return sorted((self.needed_at_best, self.needed_at_worst))

    @property
    def needed_at_best(self) -> int:
        """The same for the run with the most room."""
        return fullest(self.better) + self.case.card.margin[0]

    @property
    def needed_at_worst(self) -> int:
        """The same for the run with the least room. It can be less than for the other one, in which PyTorch may cache
        more."""
        return fullest(self.worse) + self.case.card.margin[1]

    @property
    def left(self) -> Sequence[int]:
        """Free bytes on the fullest GPU, for each run with its card."""
        least, most = self.case.card.total
        return sorted((least - self.needed_at_worst, most - self.needed_at_best))


def judged(case: Case, worse: Run, better: Run) -> Verdict:
    """Raises Failed if a run ended for another reason than memory."""
    if fitted(worse):
        return Verdict(case, FITS, worse, better)
    return Verdict(case, TOO_CLOSE if fitted(better) else DOES_NOT_FIT, worse, better)


def fitted(run: Run) -> bool:
    """Raises Failed if it ended for another reason than memory."""
    if run.went_well:
        fullest(run)
        return True
    if run.out_of_memory:
        return False
    words = [line for line in run.last_words.strip().splitlines() if line.strip()]
    last = words[-1] if words else "it printed no message"
    if run.timed_out:
        raise Failed(f"the program did not end within {run.seconds:.0f} s (--timeout). Its last line: {last}")
    status = f"signal {-run.status}" if run.status < 0 else f"status {run.status}"
    raise Failed(f"the program failed with {status}, but not because memory ran out. Its last line: {last}")


def retries(run: Run) -> int:
    """How often an allocation failed and succeeded after PyTorch had emptied its cache."""
    return sum(int(analyzed(capture, "oom")["answered"]) for capture in run.captures)


def tried(change: Change, run: Run) -> Tried:
    """The result of a change."""
    said = Path(run.wanted.changes["GPUMEM_PLAN_CHANGED"])
    names = sorted(set(said.read_text(encoding="utf-8").split())) if said.exists() else []
    name = f"{change.text}: {', '.join(names)}" if names and change.inside == "checkpoint" else change.text
    if change.inside in ("checkpoint", "adafactor") and not names:
        return Tried(name, None, "the program does not use it")
    try:
        return Tried(name, fullest(run) if fitted(run) else None)
    except (Failed, Unreadable) as error:
        return Tried(name, None, str(error))


def used(run: Run) -> List[Device]:
    """The GPUs that the run used, the fullest first. Raises Failed if it used no GPU."""
    devices = [device for device in run.devices if device.needed]
    if not devices:
        raise Failed("the program used no GPU")
    return sorted(devices, key=lambda device: -device.needed)


def fullest(run: Run) -> int:
    """Bytes on the fullest GPU. The peaks of several processes on a GPU are added up, which is an upper bound."""
    by_gpu: Dict[int, int] = {}
    for device in used(run):
        by_gpu[device.ordinal] = by_gpu.get(device.ordinal, 0) + device.needed
    return max(by_gpu.values())


def peak(run: Run, level: str) -> int:
    """The highest figure of a level on any GPU."""
    return max(int(device.figures[level]["peak_bytes"]) for device in used(run))


def moment(run: Run) -> Peak:
    """The memory of the fullest GPU: at the peak of tensors, or when memory ran out."""
    device = used(run)[0]
    at = "oom" if not run.went_well else "peak"
    [found] = analyzed(device.capture, "ledger", "--at", at, "--device", str(device.ordinal))
    where = ("--at", at, "--device", str(device.ordinal))
    return {
        "device": found["device"],
        "seq": found["seq"],
        "time_ns": found["time_ns"],
        "step": found["step"],
        "phase": found["phase"],
        "rows": found["rows"],
        # Not there if the purpose of no tensor is known.
        "categories": found.get("categories", []),
        "lines": analyzed(device.capture, "lines", *where),
        "modules": analyzed(device.capture, "lines", "--by", "module", *where),
    }


def failure(run: Run) -> Optional[Dict[str, Any]]:
    """The failure of a run that ran out of memory, with its cause, as in `gpumem-analyze oom`."""
    for capture, summary in zip(run.captures, run.summaries):
        if summary["out_of_memory_events"]:
            said: Dict[str, Any] = analyzed(capture, "oom")
            return said
    return None


def keep(of: Verdict, folder: Path) -> None:
    """Moves the captures of both runs, and the program's output, into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    name = of.case.card.file_name if of.case.rank is None else f"{of.case.card.file_name}.rank{of.case.rank}"
    for which, run in (("least", of.worse), ("most", of.better)):
        for number, capture in enumerate(run.captures):
            more = f".{number}" if len(run.captures) > 1 else ""
            shutil.move(str(capture), folder / f"{name}.{which}{more}.bin")
        shutil.move(str(run.output), folder / f"{name}.{which}.txt")
