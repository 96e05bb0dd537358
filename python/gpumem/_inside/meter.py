"""Measures used memory, and the peak since a mark, for the drop-ins.

With libgpumem.so preloaded all figures come from the hooks and are exact, for short peaks and any number of open
marks. Without it they are NVML's, read every millisecond, and PyTorch's counters; a warning is printed once. A
mark never mixes the two: `Mark.source` is its source.

| level | with the hooks | without |
|---|---|---|
| TENSOR | allocated bytes of the framework's pool | `torch.cuda.memory_allocated`, and its own peak |
| PHYSICAL | memory of the card in this process | NVML's `used` of the whole card, including other processes |
"""

import functools
import os
import sys
import warnings
from typing import Callable, Dict, NamedTuple, Optional

from .._machine import devices, nvml as _nvml
from . import library, pools, sampler

TENSOR, DRIVER, HOST, PHYSICAL = library.LEVELS

_UNPRELOADED = (
    "libgpumem.so does not record this process, so peaks of GPU memory are {how}: short ones can be missed. "
    "Start the program with gpumem run for exact figures."
)
_said = False
# Whether a process will be recorded from its first CUDA call on; by process id, because of forks.
_would_record: Dict[int, bool] = {}


def current() -> int:
    """Ordinal of this thread's current device."""
    return devices.current()


class Figures(NamedTuple):
    """Bytes at the mark, now, and the peak since the mark."""

    start: int
    live: int
    peak: int


def exact() -> bool:
    """Whether figures of this process come from the hooks. They do not in a child forked from a recorded
    process, or if no capture can be written."""
    if library.recording():
        return True
    if os.getpid() not in _would_record:
        number = library.scope_begin("")
        library.scope_forget(number)
        _would_record[os.getpid()] = number != 0
    return _would_record[os.getpid()]


def used(device: Optional[int] = None, level: int = PHYSICAL) -> int:
    """Bytes used now: of this process with the hooks; else of the card (PHYSICAL), or of PyTorch (TENSOR)."""
    ordinal = current() if device is None else device
    if exact():
        if level == PHYSICAL:
            library.read_card()
        return library.counters(ordinal, level)[0]
    return pools.tensor_bytes(ordinal) if level == TENSOR else card_memory(ordinal).used


def card_memory(device: Optional[int] = None) -> _nvml.Memory:
    """NVML's figures of a device (None: the current one) for all processes; zeros if it does not exist."""
    found, nvml = devices.find(device), _nvml.library()
    memory = nvml.memory(found.handle) if found is not None and nvml is not None else None
    return memory or _nvml.Memory(0, 0, 0, None)


class Mark:
    """A point in the program from which memory is measured on one device; any number can be open."""

    def __init__(self, device: Optional[int] = None, name: str = "") -> None:
        self.device = current() if device is None else device
        self._name = name
        self._begin()

    def _begin(self) -> None:
        self._number = library.scope_begin(self._name)
        self._sampled = None if self._number else _Sampled(self.device)

    @property
    def source(self) -> str:
        """`hooks`, `sampled`, or `none` without a card."""
        return self._sampled.source if self._sampled else "hooks"

    def read(self, level: int) -> Figures:
        """The figures of a level since the mark; after `end`, those at its call."""
        if self._sampled:
            return self._sampled.read(level)
        row = library.scope_read(self._number, self.device, level)
        return Figures(0, 0, 0) if row is None else Figures(row.start, row.live, row.peak)

    def reset(self) -> None:
        """Moves the mark to this moment."""
        if self._sampled:
            self._sampled.reset()
        elif not library.scope_reset(self._number):
            self._begin()

    def end(self) -> None:
        """Freezes the figures. A second call changes nothing."""
        if self._sampled:
            self._sampled.end()
        else:
            library.scope_end(self._number)

    def __del__(self) -> None:
        number = getattr(self, "_number", 0)
        if number and library is not None:  # None at the end of the interpreter
            library.scope_forget(number)


class _Sampled:
    def __init__(self, device: int) -> None:
        self._device = device
        found, nvml = devices.find(device), _nvml.library()
        # Without `self`: the sampler keeps this function alive, and the mark must be closed when it is dropped.
        self._card_used: Callable[[], int] = lambda: 0
        if found is not None and nvml is not None:
            self._card_used = functools.partial(nvml.used, found.handle)
        self.source = "sampled" if found is not None else "none"
        if found is not None:
            _say_once()
        self._frozen: Optional[Dict[int, Figures]] = None
        self._open()

    def _open(self) -> None:
        self._card = sampler.Gauge(self._card_used) if self.source != "none" else None
        self._start = self._card_used()
        self._tensors = pools.tensor_bytes(self._device)
        self._peak_before = pools.tensor_peak(self._device)

    def read(self, level: int) -> Figures:
        if self._frozen is not None:
            return self._frozen[level]
        if level == TENSOR:
            live = pools.tensor_bytes(self._device)
            peak = pools.tensor_peak(self._device)
            known = peak if peak != self._peak_before else 0
            return Figures(self._tensors, live, max(self._tensors, live, known))
        live = self._card.look() if self._card is not None else 0
        return Figures(self._start, live, max(self._start, self._card.peak if self._card is not None else 0))

    def reset(self) -> None:
        self._close()
        self._frozen = None
        self._open()

    def end(self) -> None:
        if self._frozen is None:
            self._frozen = {level: self.read(level) for level in (TENSOR, DRIVER, HOST, PHYSICAL)}
            self._close()

    def _close(self) -> None:
        if self._card is not None:
            self._card.close()
            self._card = None

    def __del__(self) -> None:
        if hasattr(self, "_card"):
            self._close()


def _say_once() -> None:
    global _said
    if not _said:
        _said = True
        how = "PyTorch's own or sampled from NVML" if pools.torch_in_use() else "sampled from NVML"
        warnings.warn(_UNPRELOADED.format(how=how), RuntimeWarning, stacklevel=_depth_of_caller())


def _depth_of_caller() -> int:
    """The number of frames between `_say_once` and the first one outside of this package."""
    frame, depth = sys._getframe(2), 2
    package = __name__.partition(".")[0]
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(package):
        frame, depth = frame.f_back, depth + 1
    return depth
