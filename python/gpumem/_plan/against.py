"""Compares a plan with the capture of a real run."""

from __future__ import annotations

from pathlib import Path
from typing import List, Optional, Tuple

from .._reading.analysis import answered
from .._text import sizes
from .dry_run import Failed
from .form import Against, AgainstRow, PlannedLevel
from .verdict import Verdict, peak

_LEVELS: Tuple[Tuple[PlannedLevel, str], ...] = (("tensors", "tensor"), ("reserved by PyTorch", "reserved"), ("on the card", "physical"))


def compared(of: Verdict, capture: Path, device: Optional[int] = None) -> Against:
    """Planned peaks, lowest and highest, and the recorded ones."""
    summary = answered(capture, "report", "--all")
    devices = [each for each in summary.body["devices"] if device in (None, each["ordinal"])]
    if not devices:
        raise Failed(f"{capture} has no GPU to compare with")
    found: List[AgainstRow] = []
    for name, level in _LEVELS:
        was = [each[level]["peak_bytes"] for each in devices if each.get(level)]
        if was:
            planned = sorted(peak(run, level) for run in (of.better, of.worse))
            found.append({"what": name, "planned_bytes": planned, "measured_bytes": max(was)})
    return {"capture": summary.capture, "rows": found}


def text(found: List[AgainstRow], capture: Path) -> List[str]:
    """A table with the distance of the recorded peak from the nearer end of the planned range."""
    lines = [f"{'beside ' + capture.name:26.26}{'planned':>21}{'measured':>12}{'off by':>10}"]
    for row in found:
        low, high = row["planned_bytes"]
        was = row["measured_bytes"]
        off = low - was if was < low else min(high - was, 0)
        planned = sizes.text(low) if low == high else f"{sizes.text(low)}–{sizes.text(high)}"
        share = f"{off / was:+.1%}" if off and was else "0"
        lines.append(f"{row['what']:26.26}{planned:>21}{sizes.text(was):>12}{share:>10}")
    return lines
