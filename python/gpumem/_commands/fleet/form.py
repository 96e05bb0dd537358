"""The JSON of `gpumem fleet query` and `gpumem fleet sql`. The columns of a question are those of its file below queries/."""

from __future__ import annotations

from typing import Dict, List, Literal, NewType, Optional, TypedDict, Union

from ..._text.forms import Form

# A value of SQL: also a list, or an object with any keys. Times are ISO 8601 in UTC.
Cell = NewType("Cell", object)


class FailuresByCauseRow(TypedDict):
    """Failed allocations with one cause."""

    cause: str  #: The cause, as in `gpumem-analyze oom`.
    raised: int  #: Failures that the program got.
    retried: int  #: Failures after which PyTorch's allocator tried again.
    runs: int  #: Runs with such failures.
    captures: int  #: Captures with such failures.
    last_time: str  #: The time of the last one, ISO 8601 in UTC.
    last_run: str  #: Its run.
    last_rank: Optional[int]  #: Its rank.
    line: Optional[str]  #: The line that requested most often.
    most_wanted_bytes: Optional[int]  #: The largest request.


class GrowthByVersionRow(TypedDict):
    """A line in a version of the code, in which it holds more or less than in the version before."""

    line: Optional[str]  #: The line.
    version: Optional[str]  #: The version.
    first_started: str  #: When the version first ran, ISO 8601 in UTC.
    runs: int  #: Its runs.
    bytes: int  #: Bytes of the line's tensors at the peak: the median of the version's captures.
    previous_version: Optional[str]  #: The version before.
    grown_bytes: int  #: The difference from the version before.


class LargestHoldersRow(TypedDict):
    """The captures with one value of a label."""

    owner: Optional[str]  #: The label's value; `null`: captures without the label.
    runs: int  #: Their runs.
    captures: int  #: Their number.
    most_bytes: Optional[int]  #: The greatest memory of one process.
    reserved_bytes: Optional[int]  #: The sum of the peaks of reserved memory.
    tensor_bytes: Optional[int]  #: The sum of the peaks of tensors.
    line: Optional[str]  #: The line that holds most.
    line_bytes: Optional[int]  #: The sum of what the line holds at the peaks.


class LinesOverRunsRow(TypedDict):
    """A line that holds tensors at the peak."""

    line: Optional[str]  #: The line.
    file: Optional[str]  #: Its file.
    text: Optional[str]  #: Its source code.
    runs: int  #: Runs in which it holds memory.
    captures: int  #: Captures in which it holds memory.
    most_bytes: int  #: The most that it holds in a capture.
    run: str  #: The run of that capture.
    rank: Optional[int]  #: The rank of that capture.
    median_bytes: int  #: The median of the captures in which it holds memory.


class OutliersRow(TypedDict):
    """A rank that differs from its peers, with a line that makes the difference."""

    run: str  #: The run.
    rank: int  #: The rank.
    peers: Optional[str]  #: The coordinates that its peers share.
    metric: Literal["tensors", "cache", "outside", "unexplained"]  #: The figure that differs.
    bytes: int  #: The rank's figure.
    median_bytes: int  #: The median of its peers.
    off_bytes: int  #: The difference.
    peer_count: int  #: The number of peers.
    since_step: Optional[int]  #: The difference began at this step or later.
    until_step: Optional[int]  #: It began at this step or earlier.
    place: Optional[int]  #: The number of the line, from 1; `null`: no line makes the difference.
    line: Optional[str]  #: The line.
    line_bytes: Optional[int]  #: Bytes that the rank's line holds at the peak.
    line_median_bytes: Optional[int]  #: The median of the peers.
    line_off_bytes: Optional[int]  #: The difference.


class WasteRow(TypedDict):
    """Reserved and unallocated memory of a job in an hour."""

    run: str  #: The run.
    job: Optional[str]  #: The job.
    day: str  #: The day in UTC, ISO 8601.
    hour: int  #: The hour, 0 to 23.
    ranks: int  #: Captures with figures in that hour.
    most_bytes: int  #: The most of one capture.
    mean_bytes: int  #: The mean over captures and time.
    wasted_gib_hours: float  #: Bytes × time over all captures, in GiB × hours.


class FailuresByCause(TypedDict):
    """`failures-by-cause`."""

    query: Literal["failures-by-cause"]  #: The question.
    rows: List[FailuresByCauseRow]  #: The answer.


class GrowthByVersion(TypedDict):
    """`growth-by-version`."""

    query: Literal["growth-by-version"]  #: The question.
    rows: List[GrowthByVersionRow]  #: The answer.


class LargestHolders(TypedDict):
    """`largest-holders`."""

    query: Literal["largest-holders"]  #: The question.
    rows: List[LargestHoldersRow]  #: The answer.


class LinesOverRuns(TypedDict):
    """`lines-over-runs`."""

    query: Literal["lines-over-runs"]  #: The question.
    rows: List[LinesOverRunsRow]  #: The answer.


class Outliers(TypedDict):
    """`outliers`."""

    query: Literal["outliers"]  #: The question.
    rows: List[OutliersRow]  #: The answer.


class Waste(TypedDict):
    """`waste`."""

    query: Literal["waste"]  #: The question.
    rows: List[WasteRow]  #: The answer.


QUERY = Form("fleet-query", Union[FailuresByCause, GrowthByVersion, LargestHolders, LinesOverRuns, Outliers, Waste])
# Columns are those of the question.
SQL = Form("fleet-sql", List[Dict[str, Cell]])
