"""What fastai's two GPUMemTrace share: the measuring. How it is said is each era's own."""

from typing import Any, Optional, Tuple

from .. import _library, _meter, _pools

__all__ = ["Trace", "b2mb"]


def b2mb(num: float) -> int:
    """Bytes in MB (2**20), rounded toward zero."""
    return int(num / 2**20)


class Trace:
    """Used and peaked memory of the current device since `start` or `reset`, frozen by `stop`.

    Figures are of what the card gave this process. "No cache" is reached as ever: the frameworks' caches are
    emptied at the start and whenever data are set, so that memory which is held for nothing is not in
    `used`. The peak is the card's between those two moments, cache included."""

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
        """Everything is counted from now on."""
        _pools.empty_caches()
        # What contexts and code took until now is not this trace's.
        _library.read_card()
        if self._mark is None:
            self._mark = _meter.Mark(name=self._name)
        else:
            self._mark.reset()
        self.is_running, self.data_is_set = True, False

    def start(self) -> None:
        """Begins to measure, from zero."""
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
        """Takes the figures of this moment; of the stop, once stopped."""
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
        """Where the peak comes from: `hooks` (exact), `sampled`, or `none` without a GPU."""
        return self._mark.source if self._mark is not None else "none"

    def tensors(self) -> Tuple[int, int]:
        """Not fastai's: the same two figures in bytes of tensors alone, without what the pool rounds up."""
        if self._mark is None:
            return 0, 0
        figures = self._mark.read(_meter.TENSOR)
        used = figures.live - figures.start
        return used, max(figures.peak - figures.start - max(used, 0), 0)

    def __enter__(self) -> Any:
        self.start()
        return self
