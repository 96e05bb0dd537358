"""RAM of this process since a mark. The kernel reports the peak of the whole process; lower peaks are sampled."""

from typing import Optional

from .._inside import meter as _meter, sampler as _sampler
from .._machine import ram as _ram

__all__ = ["HostMark"]


class HostMark:
    """A point in the program from which the process's RAM is measured."""

    def __init__(self) -> None:
        self._start, self._highest = _ram.used(), _ram.peak()
        self._gauge = _sampler.Gauge(_ram.used)
        self._frozen: Optional[_meter.Figures] = None

    def read(self) -> _meter.Figures:
        """Bytes at the mark, now, and the peak in between: exact if the peak is the process's highest so far."""
        if self._frozen is not None:
            return self._frozen
        live, highest = self._gauge.look(), _ram.peak()
        known = highest if highest > self._highest else 0
        return _meter.Figures(self._start, live, max(self._gauge.peak, known))

    def end(self) -> None:
        if self._frozen is None:
            self._frozen = self.read()
            self._gauge.close()

    def __del__(self) -> None:
        if hasattr(self, "_gauge"):
            self._gauge.close()
