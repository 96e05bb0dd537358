"""Whether a program fits a card: judged by a run where the card gives the least and the program takes the most that is thought
possible, and one where it is the other way round."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

from .._analysis import Unreadable, analyzed
from .changes import Change
from .dry_run import Device, Failed, Run
from .form import Peak, Word
from .search import Found

FITS: Word = "fits"
DOES_NOT_FIT: Word = "does not fit"
TOO_CLOSE: Word = "too close to say"
# A ledger's rows that are not exact: exact is what PyTorch's own allocator and the program itself asked for.
CONTEXT, CODE, STREAMS, LIBRARY, MARGIN = "context", "module", "streams", "library", "other_processes"
# What is no part of what CUDA gives.
BESIDES = "driver_reserved"


@dataclass(frozen=True)
class Ends:
    """What a card may be: settings of the simulated card by which a program has the least room, and the most."""

    name: str
    # As a part of a file's name.
    file_name: str
    worse: Mapping[str, str]
    better: Mapping[str, str]
    # Bytes that CUDA gives, at least and at most.
    total: Sequence[int]
    # What code of kernels takes beyond what the simulated card counts, at least and at most: it is somebody else's in the runs.
    margin: Sequence[int] = (0, 0)
    # Where the bytes are from, of the context and of that code: measured, published, assumed.
    context: str = "assumed"
    code: str = "assumed"

    def known(self, kind: str) -> str:
        """How well the bytes of a ledger's row are known."""
        if kind == CONTEXT:
            return self.context
        if kind == MARGIN:
            return self.code
        return "assumed" if kind in (CODE, STREAMS, LIBRARY) else "exact"


@dataclass(frozen=True)
class Case:
    """What is judged: a program on a card, as a rank of many if it is one."""

    card: Ends
    rank: Optional[int] = None

    @property
    def name(self) -> str:
        return self.card.name if self.rank is None else f"{self.card.name}, rank {self.rank}"


@dataclass(frozen=True)
class Tried:
    """A change, and what the program needs with it; None: it does not fit either. Why it could not be tried."""

    text: str
    needed: Optional[int]
    failed: Optional[str] = None


@dataclass(frozen=True)
class Verdict:
    """What is said of a case."""

    case: Case
    verdict: Word
    # The runs at both ends.
    worse: Run
    better: Run
    # Whether it worked where it has the least room, and only just: where blocks lay decided.
    only_just: bool = False
    # Of a search: the largest number that fits.
    largest: Optional[Found] = None
    # The least memory with which it works, where that was asked for.
    smallest: Optional[int] = None
    # Of a program that does not fit: changes that were tried where the card gives the least.
    tried: Sequence[Tried] = ()

    @property
    def shown(self) -> Run:
        """The run that the breakdown is of: the one that fitted, if there is one."""
        return self.worse if self.worse.went_well else self.better

    @property
    def needed(self) -> Sequence[int]:
        """Bytes that were on the fullest GPU at once: the least and the greatest that is thought possible. Of a run that failed they
        are what was there by then."""
        return sorted((self.needed_at_best, self.needed_at_worst))

    @property
    def needed_at_best(self) -> int:
        """The same of the run with the most room."""
        return fullest(self.better) + self.case.card.margin[0]

    @property
    def needed_at_worst(self) -> int:
        """The same of the run with the least room. It can be less than of the other one, in which PyTorch may cache more."""
        return fullest(self.worse) + self.case.card.margin[1]

    @property
    def left(self) -> Sequence[int]:
        """Bytes that were left on the fullest GPU: each run by the card that it had."""
        least, most = self.case.card.total
        return sorted((least - self.needed_at_worst, most - self.needed_at_best))


def judged(case: Case, worse: Run, better: Run) -> Verdict:
    """Raises Failed where a run ended for another reason than memory."""
    if fitted(worse):
        return Verdict(case, FITS, worse, better)
    return Verdict(case, TOO_CLOSE if fitted(better) else DOES_NOT_FIT, worse, better)


def fitted(run: Run) -> bool:
    """Raises Failed where it ended for another reason than memory."""
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
    """How often the driver refused and PyTorch got the memory by emptying its cache."""
    return sum(int(analyzed(capture, "oom")["answered"]) for capture in run.captures)


def tried(change: Change, run: Run) -> Tried:
    """What a run says of a change."""
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
    """The GPUs that the run used, the fullest first. Raises Failed where there is none."""
    devices = [device for device in run.devices if device.needed]
    if not devices:
        raise Failed("the program used no GPU")
    return sorted(devices, key=lambda device: -device.needed)


def fullest(run: Run) -> int:
    """What was on the fullest GPU. Several processes on one are added up, each at its own peak: at most that much."""
    by_gpu: Dict[int, int] = {}
    for device in used(run):
        by_gpu[device.ordinal] = by_gpu.get(device.ordinal, 0) + device.needed
    return max(by_gpu.values())


def peak(run: Run, level: str) -> int:
    """The greatest figure of a level on any GPU."""
    return max(int(device.figures[level]["peak_bytes"]) for device in used(run))


def moment(run: Run) -> Peak:
    """What the fullest GPU consisted of: when tensors held most, or when memory ran out."""
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
    """The failure of a run that ran out of memory, with its cause, as `gpumem-analyze oom` has it."""
    for capture, summary in zip(run.captures, run.summaries):
        if summary["out_of_memory_events"]:
            said: Dict[str, Any] = analyzed(capture, "oom")
            return said
    return None


def keep(of: Verdict, folder: Path) -> None:
    """Moves the captures of both runs, and what the program printed, into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    name = of.case.card.file_name if of.case.rank is None else f"{of.case.card.file_name}.rank{of.case.rank}"
    for which, run in (("least", of.worse), ("most", of.better)):
        for number, capture in enumerate(run.captures):
            more = f".{number}" if len(run.captures) > 1 else ""
            shutil.move(str(capture), folder / f"{name}.{which}{more}.bin")
        shutil.move(str(run.output), folder / f"{name}.{which}.txt")
