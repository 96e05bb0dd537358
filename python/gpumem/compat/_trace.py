"""Measures for both versions of fastai's GPUMemTrace. Each version has its own output."""

from typing import Any, Optional, Tuple

from .._inside import library as _library, meter as _meter, pools as _pools

__all__ = ["Trace", "b2mb"]


def b2mb(num: float) -> int:
    """Bytes in MB (2**20), rounded toward zero."""
    return int(num / 2**20)


class Trace:
    """Used and peaked memory of the current device since `start` or `reset`, frozen by `stop`.

    Figures are of the card's memory in this process. "No cache" is implemented as in the original: the
    frameworks' caches are emptied at the start and whenever data is set, so that unused memory is not in
    `used`. The peak is the card's between those two moments, including caches."""

    is_silent: bool

    def __init__(self, name: str = "GPUMemTrace") -> None:
        self._name = name
        self._mark: Optional[_meter.Mark] = None
        self.is_running = False
        self.data_is_set = True
        self.used_start = self.used_peak = 0
        self.delta_used = self.delta_peaked = 0
        self.start()

    def reset(self) -> None:
        """Starts counting from zero."""
        _pools.empty_caches()
        # Memory that contexts and code took until now does not belong to this trace.
        _library.read_card()
        if self._mark is None:
            self._mark = _meter.Mark(name=self._name)
        else:
            self._mark.reset()
        self.is_running, self.data_is_set = True, False

    def start(self) -> None:
        """Starts measuring from zero."""
        self._mark = None
        self.reset()

    def stop(self) -> None:
        """Freezes the data. A second call changes nothing."""
        if self.is_running:
            self.data_set()
            self.is_running = False
            if self._mark is not None:
                self._mark.end()

    def data_set(self) -> None:
        """Reads the figures now, or those at the stop."""
        if not self.is_running or self._mark is None:
            return
        _library.read_card()
        peak = self._mark.read(_meter.PHYSICAL).peak
        _pools.empty_caches()
        figures = self._mark.read(_meter.PHYSICAL)
        self.used_start, self.used_peak = b2mb(figures.start), b2mb(peak)
        used, peaked = figures.live - figures.start, peak - figures.start
        if used > 0:
            peaked -= used
        self.delta_used, self.delta_peaked = b2mb(used), b2mb(max(peaked, 0))
        self.data_is_set = True

    def data(self) -> Tuple[int, int]:
        """`(delta_used, delta_peaked)` in MB: since the start, or up to the stop."""
        self.data_set()
        return self.delta_used, self.delta_peaked

    @property
    def source(self) -> str:
        """The source of the peak: `hooks` (exact), `sampled`, or `none` without a GPU."""
        return self._mark.source if self._mark is not None else "none"

    def tensors(self) -> Tuple[int, int]:
        """An addition to fastai: the same two figures in bytes of tensors, without the pool's rounding."""
        if self._mark is None:
            return 0, 0
        figures = self._mark.read(_meter.TENSOR)
        used = figures.live - figures.start
        return used, max(figures.peak - figures.start - max(used, 0), 0)

    def __enter__(self) -> Any:
        self.start()
        return self
