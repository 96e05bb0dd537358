"""`ipyexperiments.cell_logger`: what each cell consumed and peaked, on the CPU and on the card.

With libgpumem.so preloaded the card's figures are the hooks'. The CPU's peaks are the kernel's where the process
was never as big before, else sampled."""

import gc
import random
import sys
import time
from datetime import timedelta
from typing import Any, NamedTuple, Optional, Tuple

from ... import _devices, _pools, _meter
from .. import _host
from .._trace import b2mb

__all__ = ["CellLogger", "CellLoggerData", "CellLoggerMemory"]


class CellLoggerMemory(NamedTuple):
    """Bytes of one cell: what it kept, how far it went above that, and what is used after it."""

    used_delta: int
    peaked_delta: int
    used_total: int


class CellLoggerData(NamedTuple):
    """One cell: RAM, the card (None without one), and seconds."""

    cpu: CellLoggerMemory
    gpu: Optional[CellLoggerMemory]
    time: float


def _memory(figures: _meter.Figures, total: Optional[int] = None) -> CellLoggerMemory:
    used = figures.live - figures.start
    peaked = max(figures.peak - figures.start - max(used, 0), 0)
    return CellLoggerMemory(used, peaked, figures.live if total is None else total)


class CellLogger:
    """Reports after each cell of IPython, from `start` to `stop`. Elsewhere `pre_run_cell` and `post_run_cell`
    can be called around any piece of work.

    `compact`: one line; `gc_collect`: garbage is collected and caches are emptied before figures are taken;
    `set_seed`: random numbers start from this seed in each cell, unless it is 0."""

    def __init__(self, exp: Optional[Any] = None, compact: bool = False, gc_collect: bool = True,
                 set_seed: int = 0) -> None:
        self.exp = exp
        self.compact = compact
        self.gc_collect = gc_collect
        self.set_seed = set_seed
        self.running = False
        self.backend = getattr(exp, "backend", None) or ("gpu" if _devices.visible() else "cpu")
        self.data: Optional[CellLoggerData] = None
        self._marks: Optional[Tuple[_host.HostMark, Optional[_meter.Mark]]] = None
        self._began = 0.0

    def _events(self) -> Optional[Any]:
        get = getattr(sys.modules.get("IPython"), "get_ipython", None)
        shell = get() if get is not None else None
        return getattr(shell, "events", None)

    def start(self) -> None:
        """Reports from the next cell on."""
        if self.running:
            return
        self.running = True
        events = self._events()
        if events is not None:
            events.register("pre_run_cell", self.pre_run_cell)
            events.register("post_run_cell", self.post_run_cell)

    def stop(self) -> None:
        """Reports no more. A second call does nothing."""
        if not self.running:
            return
        self.running = False
        events = self._events()
        if events is not None:
            events.unregister("pre_run_cell", self.pre_run_cell)
            events.unregister("post_run_cell", self.post_run_cell)
        self._end_marks()

    def pre_run_cell(self, *_: Any) -> None:
        """What is to be done before a cell."""
        self._end_marks()
        self._clean()
        if self.set_seed:
            self._seed(self.set_seed)
        gpu = _meter.Mark(name="CellLogger") if self.backend != "cpu" else None
        self._marks = (_host.HostMark(), gpu)
        self._began = time.monotonic()

    def post_run_cell(self, *_: Any) -> None:
        """What is to be done after a cell; nothing if it was not seen to begin."""
        if self._marks is None:
            return
        passed = time.monotonic() - self._began
        host, gpu = self._marks
        peaks = (host.read().peak, gpu.read(_meter.PHYSICAL).peak if gpu is not None else 0)
        self._clean()
        cpu = _memory(host.read()._replace(peak=peaks[0]))
        card = None
        if gpu is not None:
            figures = gpu.read(_meter.PHYSICAL)._replace(peak=peaks[1])
            card = _memory(figures, _meter.card_memory(gpu.device).used)
        self.data = CellLoggerData(cpu, card, passed)
        self._end_marks()
        self.report()

    def report(self) -> None:
        """Prints the last cell's figures."""
        if self.data is None:
            return
        cpu, gpu, seconds = self.data
        passed = str(timedelta(seconds=round(seconds, 3)))
        passed = passed[:-3] if "." in passed else passed + ".000"
        rows = [("CPU", cpu)] + ([("GPU", gpu)] if gpu is not None else [])
        if self.compact:
            parts = [f"{name}: {'/'.join(str(b2mb(value)) for value in row)} MB" for name, row in rows]
            print(" | ".join([*parts, f"Time {passed}", "(Consumed/Peaked/Used Total)"]))
            return
        print(f"･ RAM:  △Consumed    △Peaked    Used Total | Exec time {passed}")
        for name, row in rows:
            used, peaked, total = map(b2mb, row)
            print(f"･ {name}: {used:10,} {peaked:10,} {total:10,} MB |")

    def _clean(self) -> None:
        if self.gc_collect:
            gc.collect()
            _pools.empty_caches()

    def _end_marks(self) -> None:
        host, gpu = self._marks or (None, None)
        if host is not None:
            host.end()
        if gpu is not None:
            gpu.end()
        self._marks = None

    @staticmethod
    def _seed(seed: int) -> None:
        random.seed(seed)
        numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
        if numpy is not None:
            numpy.random.seed(seed)
        if torch is not None:
            torch.manual_seed(seed)
