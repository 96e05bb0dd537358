"""The estimated time of a replay's calls: their number × the mean time of such a call in the capture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Tuple

# Counts of a replay's calls: succeeded, failed.
Calls = Mapping[str, Tuple[int, int]]

# The name of a runtime call in a capture, if the runtime is part of PyTorch's libraries.
_BENEATH = {"cudaMalloc": "cuMemAlloc_v2", "cudaFree": "cuMemFree_v2"}


@dataclass(frozen=True)
class Times:
    """Times of one kind of call."""

    calls: int
    total_ns: int


@dataclass(frozen=True)
class Price:
    """The time of calls. If a time is missing, there is no sum."""

    total_ns: Optional[int]
    # Kinds of calls for which the capture has no time, as in `cuMemCreate` and `cudaMalloc (failed)`.
    without_time: Tuple[str, ...]


class Prices:
    """The times in a capture, by function."""

    def __init__(self, rows: List[Dict[str, Any]]):
        """`rows`: `calls` of the capture's summary."""
        self._times: Dict[Tuple[str, bool], Times] = {}
        for row in rows:
            for key, failed in (("times", False), ("failed_times", True)):
                times = row.get(key)
                if times and row["function"]:
                    self._times[row["function"], failed] = Times(times["calls"], times["total_ns"])

    def __bool__(self) -> bool:
        return bool(self._times)

    def of(self, calls: Calls) -> Price:
        total, missing = 0, []
        for function, counts in calls.items():
            for failed, count in enumerate(counts):
                times = self._find(function, bool(failed))
                if not count:
                    continue
                if times is None:
                    missing.append(f"{function} (failed)" if failed else function)
                else:
                    total += count * times.total_ns // times.calls
        return Price(None if missing else total, tuple(missing))

    def _find(self, function: str, failed: bool) -> Optional[Times]:
        found = self._times.get((function, failed))
        return found or self._times.get((_BENEATH.get(function, ""), failed))


def duration(ns: int) -> str:
    """Three significant digits, as in the analyzer."""
    if ns < 1000:
        return f"{ns} ns"
    value = ns / 1000
    for unit in ("µs", "ms"):
        for decimals, limit in ((2, 10), (1, 100), (0, 1000)):
            if round(value, decimals) < limit:
                return f"{value:.{decimals}f} {unit}"
        value /= 1000
    decimals = 2 if round(value, 2) < 10 else 1 if round(value, 1) < 100 else 0
    return f"{value:.{decimals}f} s"
