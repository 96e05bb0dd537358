"""PyTorch's own figures, if the program has imported it: for scopes in a process that is not recorded.

This module never imports PyTorch, initialises CUDA, or resets a counter of PyTorch."""

import sys
import warnings
from typing import Dict, Tuple

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
        self._start = _counters()
        self._now = {device: (live, live) for device, (live, _) in self._start.items()}
        self._frozen = False

    def take(self) -> bool:
        """Reads again. Returns whether PyTorch has counters."""
        if not self._frozen:
            self._seen = hasattr(sys.modules.get("torch"), "cuda")
            for device, (live, peak) in _counters().items():
                # A device without figures at the start had 0 bytes then.
                _, peak_before = self._start.get(device, (0, 0))
                _, most = self._now.get(device, (0, 0))
                self._now[device] = (live, max(most, live, peak if peak > peak_before else 0))
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


def _counters() -> Dict[int, Tuple[int, int]]:
    """PyTorch's live bytes and its peak, by device."""
    torch = pools.torch_in_use()
    devices = range(torch.cuda.device_count() if torch else 0)
    return {device: (pools.tensor_bytes(device), pools.tensor_peak(device)) for device in devices}
