"""The summary of each query's result, and its columns."""

from __future__ import annotations

from typing import Any, Callable, Dict, Sequence, Tuple

from ..._text import sizes
from .engine import Answer
from .text import headed, table

Row = Dict[str, Any]


def shown(name: str, answer: Answer, compared: Tuple[int, int]) -> str:
    """The result of the named query as text; `compared` is the number of captures and of runs that were read."""
    rows = [dict(zip(answer.columns, row)) for row in answer.rows]
    if not rows:
        return headed(f"{_NOTHING[name]} ({_of(compared)}).", "")
    head, heads = _HEADS[name]
    return headed(head(rows), table(answer, heads))


def _of(compared: Tuple[int, int]) -> str:
    captures, runs = compared
    return f"{_counted(captures, 'capture')} of {_counted(runs, 'run')}"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _lines(rows: Sequence[Row]) -> str:
    first = rows[0]
    return (
        f"{first['line']} holds {sizes.text(first['most_bytes'])} in rank {first['rank']} of {first['run']}, more than any other "
        f"line; {sizes.text(first['median_bytes'])} in the median of {_counted(first['captures'], 'capture')}."
    )


def _growth(rows: Sequence[Row]) -> str:
    first = rows[0]
    verb = "grew" if first["grown_bytes"] > 0 else "shrank"
    return (
        f"{first['line']} {verb} by {sizes.text(abs(first['grown_bytes']))} from version {first['previous_version']} to "
        f"{first['version']}, to {sizes.text(first['bytes'])}."
    )


def _waste(rows: Sequence[Row]) -> str:
    first = rows[0]
    return (
        f"{first['run']} had {first['wasted_gib_hours']:,.2f} GiB-hours of reserved but unallocated memory on {first['day']} from "
        f"{first['hour']}:00 UTC to {first['hour'] + 1}:00, {sizes.text(first['most_bytes'])} at most in one of {_counted(first['ranks'], 'process')[:-1]}"
        f"{'es' if first['ranks'] != 1 else 's'}."
    )


def _failures(rows: Sequence[Row]) -> str:
    first, failed = rows[0], sum(row["raised"] for row in rows)
    return (
        f"{_counted(failed, 'failure')} because memory ran out; most with cause {first['cause']}: {first['raised']:,} in "
        f"{_counted(first['runs'], 'run')}, last in rank {first['last_rank']} of {first['last_run']}."
    )


def _holders(rows: Sequence[Row]) -> str:
    first = rows[0]
    owner = first["owner"] or "captures without the label"
    return (
        f"{owner} holds most: {sizes.text(first['reserved_bytes'])} in the peaks of {_counted(first['captures'], 'capture')}, "
        f"{sizes.text(first['most_bytes'])} at most in one."
    )


_NOTHING = {
    "lines-over-runs": "No line owns memory of tensors",
    "growth-by-version": "No line grew or shrank between two versions of the code",
    "waste": "The dataset has no memory over time",
    "failures-by-cause": "No allocation failed",
    "largest-holders": "The dataset has no captures",
}
# The summary, and the columns with their heads.
_HEADS: Dict[str, Tuple[Callable[[Sequence[Row]], str], Dict[str, str]]] = {
    "lines-over-runs": (
        _lines,
        {"most_bytes": "most", "median_bytes": "median", "runs": "runs", "captures": "captures", "run": "run", "rank": "rank", "line": "line"},
    ),
    "growth-by-version": (
        _growth,
        {"grown_bytes": "more", "bytes": "holds", "previous_version": "from", "version": "to", "runs": "runs", "line": "line"},
    ),
    "waste": (
        _waste,
        {"wasted_gib_hours": "GiB-hours", "mean_bytes": "mean", "most_bytes": "most", "ranks": "ranks", "day": "day", "hour": "hour (UTC)", "run": "run"},
    ),
    "failures-by-cause": (
        _failures,
        {"raised": "failed", "retried": "retried", "runs": "runs", "most_wanted_bytes": "most wanted", "last_time": "last (UTC)",
         "cause": "cause", "line": "line"},
    ),
    "largest-holders": (
        _holders,
        {"reserved_bytes": "reserved", "tensor_bytes": "tensors", "most_bytes": "one at most", "runs": "runs", "captures": "captures",
         "owner": "owner", "line": "largest line"},
    ),
}  # fmt: skip
