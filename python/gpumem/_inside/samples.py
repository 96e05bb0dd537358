"""PyTorch's own figures, if the program has imported it: for scopes in a process that is not recorded.

This module never imports PyTorch, initialises CUDA, or resets a counter of PyTorch."""

import sys
import warnings
from typing import Any, Dict, Tuple

from . import pools

_warned = False


def warn_once() -> None:
    """Warns once that figures are not the recorder's."""
    global _warned
    if _warned:
        return
    _warned = True
    warnings.warn(
        "gpumem does not record this process: scopes have samples of PyTorch's counters (source "
        '"sampled"), or zeros without PyTorch (source "none"). For exact figures, start the program with '
        "gpumem run",
        RuntimeWarning,
        stacklevel=5,
    )


class Sample:
    """PyTorch's counters, read when the scope begins, is read and ends. PyTorch keeps its peak since the
    last reset. If that has risen since the scope began, it is the scope's peak; else the scope's peak is the
    largest value that was read."""

    def __init__(self) -> None:
        # By device: live bytes and PyTorch's peak at the start; live bytes and the largest value read until now.
        self._start: Dict[int, Tuple[int, int]] = {}
        self._now: Dict[int, Tuple[int, int]] = {}
        self._frozen = False
        self._seen = self._look(self._begin)

    def _begin(self, device: int, live: int, peak: int) -> None:
        self._start[device] = (live, peak)
        self._now[device] = (live, live)

    def _follow(self, device: int, live: int, peak: int) -> None:
        # A device without figures at the start had 0 bytes then.
        _, peak_before = self._start.get(device, (0, 0))
        _, most = self._now.get(device, (0, 0))
        self._now[device] = (live, max(most, live, peak if peak > peak_before else 0))

    def _look(self, each: Any) -> bool:
        torch = pools.torch_in_use()
        for device in range(torch.cuda.device_count() if torch else 0):
            each(device, pools.tensor_bytes(device), pools.tensor_peak(device))
        return hasattr(sys.modules.get("torch"), "cuda")

    def take(self) -> bool:
        """Reads again. Returns whether PyTorch has counters."""
        if not self._frozen:
            self._seen = self._look(self._follow)
        return self._seen

    def end(self) -> bool:
        """Reads for the last time."""
        seen = self.take()
        self._frozen = True
        return seen

    def figures(self, device: int) -> Tuple[int, int, int, int, int]:
        """Start, live and peak bytes, and calls, which PyTorch does not count here."""
        start, _ = self._start.get(device, (0, 0))
        live, most = self._now.get(device, (0, 0))
        return (start, live, max(most, start), 0, 0)
