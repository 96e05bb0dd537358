"""The JSON of `gpumem plan`."""

from __future__ import annotations

from typing import List, Literal, Optional, TypedDict, Union

from .._text.forms import Capture, CategoryBytes, Cause, Failure, Form, LedgerRow, LineRow, ModuleRow, Phase

Word = Literal["fits", "does not fit", "too close to say"]
PlannedLevel = Literal["tensors", "reserved by PyTorch", "on the card"]


class TriedRow(TypedDict):
    """A change that was tried on a program that does not fit."""

    change: str  #: The change, in words.
    needed_bytes: Optional[int]  #: The memory that the program needs with it; `null`: it does not fit either, or could not be tried.
    failed: Optional[str]  #: Why it could not be tried; `null`: it was.


class Read(TypedDict):
    """A line at which the program reads values of the card that a plan does not know."""

    kind: Literal["read"]  #: `read`.
    pid: int  #: The process.
    file: str  #: The file's name.
    line: int  #: The line's number.
    function: str  #: The function's name.
    op: str  #: PyTorch's operation that reads.
    use: str  #: The use of the value.
    first: Union[None, bool, int, float, str]  #: The first value; infinities and NaN as text; `null`: not a single value.
    first_known: bool  #: Whether the first value is known.
    count: int  #: Reads at this line.
    known: int  #: Reads of known values.
    unknown: int  #: Reads of unknown values.
    assumed: int  #: Reads of values that `--assume` set.


class Weights(TypedDict):
    """Weights of which only the shapes were used (`--no-weights`)."""

    not_read_bytes: int  #: Bytes that were not read from files.
    not_drawn_bytes: int  #: Bytes that were not initialized.
    not_there_bytes: int  #: Bytes of weights that are not on this machine.


class RanOut(TypedDict):
    """The failures of the run, as `gpumem-analyze oom` shows them."""

    failures: List[Failure]  #: The failures that the capture keeps.
    cause: Optional[Cause]  #: The cause of the failure.


class Peak(TypedDict):
    """The memory of the fullest GPU: at the peak of its tensors, or when memory ran out."""

    device: int  #: Ordinal.
    seq: Optional[int]  #: The event of this point in time.
    time_ns: Optional[int]  #: Its time in ns since recording began.
    step: Optional[int]  #: The number of the step, from 1; `null` if the program has no steps.
    phase: Optional[Phase]  #: The phase; `null`: not known.
    rows: List[LedgerRow]  #: The ledger's rows.
    categories: List[CategoryBytes]  #: Categories of tensors, the largest first.
    lines: List[LineRow]  #: Lines that hold tensors, the largest first.
    modules: List[ModuleRow]  #: Modules that hold tensors, the largest first.


class CaseRow(TypedDict):
    """A program on a card."""

    card: str  #: The card's name.
    rank: Optional[int]  #: The rank of `--world`; `null` without.
    card_bytes: List[int]  #: The memory that CUDA gives: the least, the greatest.
    verdict: Word  #: Whether the program fits.
    only_just: bool  #: Whether the program worked with the least memory only because of the places of its blocks.
    smallest_card_bytes: Optional[int]  #: The least memory with which the program works (`--smallest-card`).
    room_for_all_bytes: Optional[int]  #: The memory with which PyTorch never empties its cache (`--smallest-card`).
    largest: Optional[int]  #: The largest number that fits (`--search`); `null`: no number fits, or there is no `--search`.
    needed_bytes: List[int]  #: The memory of the program on the fullest GPU: the least, the greatest.
    reserved_peak_bytes: List[int]  #: The peak of reserved memory: with the most memory, with the least.
    tensor_peak_bytes: List[int]  #: The peak of tensors: with the most memory, with the least.
    tried: List[TriedRow]  #: Changes that were tried.
    reads: List[Read]  #: Lines that read values that a plan does not know, the most frequent first.
    retries: int  #: How often PyTorch emptied its cache to get memory.
    weights: Optional[Weights]  #: Weights that were left out; `null` without `--no-weights`.
    failure: Optional[RanOut]  #: Where memory ran out; `null`: it did not.
    at: Peak  #: The memory at the peak, or when memory ran out.


class AgainstRow(TypedDict):
    """A peak."""

    what: PlannedLevel  #: The level.
    planned_bytes: List[int]  #: The peak by the plan: the least, the greatest.
    measured_bytes: int  #: The peak of the real run.


class Against(TypedDict):
    """Peaks of the plan and of a real run (`--against`)."""

    capture: Capture  #: The capture of the real run.
    rows: List[AgainstRow]  #: One row for each level.


class Plan(TypedDict):
    """Whether a program fits."""

    cases: List[CaseRow]  #: One case for each card and rank.
    against: Optional[Against]  #: The comparison with a real run; `null` without `--against`.


FORM = Form("plan", Plan)
