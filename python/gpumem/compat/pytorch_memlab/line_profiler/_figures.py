"""The figures of one line on one card: PyTorch's statistics from the start to the end of the line.

`.allocated` and `.freed` are the changes during the line. The peaks of active, allocated and reserved bytes are exact
for the line. PyTorch has one counter for each of its other peaks, which is not reset: such a peak is known if the
line raised it, else it is the greater of before and after. All other values are those at the end of the line."""

import sys
from typing import Dict

from ...._inside import meter as _meter, pools as _pools

__all__ = ["Gauge", "PEAKS"]

Stats = Dict[str, float]
PEAKS = ("active_bytes.all.peak", "allocated_bytes.all.peak", "reserved_bytes.all.peak")


class Gauge:
    """Measures lines on one card, one after the other."""

    def __init__(self, gpu: int, name: str) -> None:
        self.gpu = gpu
        self._mark = _meter.Mark(gpu, name=name)
        self._before = _stats(gpu)

    def take(self) -> Stats:
        """The figures since the gauge was made, or since the last `take`. The next line begins."""
        now = _stats(self.gpu)
        figures = {name: _of_line(name, value, self._before, now) for name, value in now.items()}
        figures.update(self._peaks(now))
        self._mark.reset()
        self._before = now
        return figures

    def end(self) -> None:
        self._mark.end()

    def _peaks(self, now: Stats) -> Stats:
        """In a program without PyTorch (and with the hooks), requested bytes of CUDA are used as active bytes, and
        the card's physical bytes as reserved bytes."""
        mark = self._mark
        if "torch" not in sys.modules and mark.source == "hooks":
            asked, given = mark.read(_meter.DRIVER).peak, mark.read(_meter.PHYSICAL).peak
            return dict(zip(PEAKS, (asked, asked, given)))
        peak = mark.read(_meter.TENSOR).peak
        reserved = now.get("reserved_bytes.all.current", 0)
        if mark.source == "hooks":
            # Reserved bytes at the peak: the current ones plus those that were freed since the peak.
            driver = mark.read(_meter.DRIVER)
            highest = max(now.get("reserved_bytes.all.peak", 0), reserved)
            reserved = min(reserved + driver.peak - driver.live, highest)
        return dict(zip(PEAKS, (peak, peak, reserved)))


def _stats(gpu: int) -> Stats:
    torch = _pools.torch_in_use()
    return dict(torch.cuda.memory_stats(gpu)) if torch is not None else {}


def _of_line(name: str, value: float, before: Stats, now: Stats) -> float:
    base, _, kind = name.rpartition(".")
    if kind in ("allocated", "freed"):
        # Lower than before: the program has reset the counter.
        return value - before[name] if before.get(name, 0) <= value and name in before else value
    if kind == "peak":
        current = f"{base}.current"
        return value if value != before.get(name) else max(before.get(current, 0), now.get(current, 0))
    return value
