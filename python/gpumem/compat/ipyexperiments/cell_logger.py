"""`ipyexperiments.cell_logger`: consumed and peak memory of each cell, on the CPU and on the card.

With libgpumem.so preloaded the card's figures come from the hooks and are exact. CPU peaks come from the kernel if
they are the process's highest so far, else they are sampled."""

import gc
import random
import sys
import time
import weakref
from typing import Any, List, NamedTuple, Optional, Tuple

from ..._inside import library as _library, meter as _meter
from ..._machine import devices as _devices, ram as _ram
from . import _notebook, _report
from ._device import DeviceMemory, HostMark
from ._report import b2mb, int2width, secs2time
from .utils.mem import get_nvml_gpu_id

__all__ = [
    "CellLogger", "CellLoggerData", "CellLoggerMemory", "CellLoggerTime", "b2mb", "cpu_ram_used", "get_nvml_gpu_id",
    "int2width", "secs2time", "set_seed",
]


class CellLoggerMemory(NamedTuple):
    """Bytes of one cell: consumed, its peak above that, and used after it."""

    used_delta: int
    peaked_delta: int
    used_total: int


class CellLoggerTime(NamedTuple):
    """Seconds that one cell took."""

    time_delta: float


class CellLoggerData(NamedTuple):
    """One cell: RAM, the card (zeros without one), and time."""

    cpu: CellLoggerMemory
    gpu: CellLoggerMemory
    time: CellLoggerTime


_NONE = CellLoggerMemory(0, 0, 0)


def cpu_ram_used() -> int:
    """Resident bytes of this process."""
    return _ram.used()


def set_seed(seed: int = 0) -> None:
    """Seeds the random numbers of Python, and of NumPy and PyTorch if the program has imported them; makes
    PyTorch's cuDNN deterministic. 0 does nothing."""
    if seed == 0:
        return
    random.seed(seed)
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None:
        numpy.random.seed(seed)
    if torch is not None:
        torch.manual_seed(seed)
        torch.cuda.manual_seed_all(seed)
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.benchmark = False


class _Cell:
    """A cell's figures at its start, and its peaks."""

    def __init__(self, device: Optional[int]) -> None:
        self._device = device
        if device is not None:
            _library.read_card()
        self._gpu = _meter.Mark(device, name="CellLogger") if device is not None else None
        self._host = HostMark()
        self._began = time.monotonic()
        self._seconds: Optional[float] = None

    def end(self) -> None:
        """Freezes the peaks and the time. A second call changes nothing."""
        if self._seconds is None:
            self._seconds = time.monotonic() - self._began
            self._host.end()
            if self._gpu is not None:
                self._gpu.end()

    def data(self) -> CellLoggerData:
        """The memory that the cell has consumed until now, and its peaks."""
        cpu = _ram.used()
        gpu = _NONE
        if self._gpu is not None:
            used = _meter.used(self._device)
            gpu = _memory(self._gpu.read(_meter.PHYSICAL), used, _meter.card_memory(self._device).used)
        return CellLoggerData(_memory(self._host.read(), cpu, cpu), gpu, CellLoggerTime(self._seconds or 0.0))


def _memory(ended: _meter.Figures, live: int, total: int) -> CellLoggerMemory:
    used = live - ended.start
    return CellLoggerMemory(used, max(ended.peak - ended.start - max(used, 0), 0), total)


class CellLogger(DeviceMemory):
    """Reports after each cell of IPython, from `start` to `stop`, beginning with the cell that starts it. Outside
    of IPython, call `pre_run_cell` and `post_run_cell` around any piece of work.

    `compact`: one line; `gc_collect`: garbage is collected before figures are read (turn it off to see memory that
    only garbage collection frees); `set_seed`: random numbers start from this seed in each cell, unless it is 0."""

    def __init__(self, exp: Optional[Any] = None, compact: bool = False, gc_collect: bool = True,
                 set_seed: int = 0) -> None:
        self.compact = compact
        self.gc_collect = gc_collect
        self.set_seed = set_seed
        self.running = False
        self.data = CellLoggerData(_NONE, _NONE, CellLoggerTime(0))
        # Weak, because the experiment holds this logger and ends with its last reference.
        self._experiment = weakref.ref(exp) if exp is not None else None
        if exp is None:
            self.backend = "gpu" if _devices.visible() else "cpu"
            self._has_gpu = self.backend != "cpu"
        else:
            self.backend, self._has_gpu = exp.backend, exp.has_gpu
            self.gpu_current_device_id = exp.gpu_current_device_id
        # Cells that are running, outermost first: `%%capture` runs a cell within a cell.
        self._open: List[_Cell] = []
        self._last: Optional[_Cell] = None

    @property
    def time_delta(self) -> float:
        """Seconds that the last cell took."""
        return self.data.time.time_delta

    def start(self) -> "CellLogger":
        """Reports from this cell on."""
        if not self.running:
            if self.gc_collect:
                gc.collect()
            _notebook.register("pre_run_cell", self.pre_run_cell)
            _notebook.register("post_run_cell", self.post_run_cell)
            self._drop_cells()
            self.running = True
            self.pre_run_cell()
        return self

    def stop(self) -> None:
        """Reports this cell, and no more. A second call does nothing."""
        if not self.running:
            return
        _notebook.unregister("pre_run_cell", self.pre_run_cell)
        _notebook.unregister("post_run_cell", self.post_run_cell)
        self.post_run_cell()
        self.running = False
        self._drop_cells()

    def pre_run_cell(self, info: Optional[Any] = None) -> None:
        """Call this before a cell."""
        if not self.running:
            self._drop_cells()
        if self.set_seed:
            set_seed(self.set_seed)
        if self._has_gpu:
            self.gpu_clear_cache()
        self._open.append(_Cell(self._device()))

    def post_run_cell(self, result: Optional[Any] = None) -> None:
        """Call this after a cell. If the cell started before the logger did, the report is for the last cell that
        the logger saw start. If there is no such cell, nothing happens."""
        cell = self._open.pop() if self._open else self._last
        if cell is None:
            return
        cell.end()
        self._last = cell
        if self.gc_collect:
            gc.collect()
        if self._has_gpu:
            self.gpu_clear_cache()
        self.data = cell.data()
        self.report()

    def report(self) -> None:
        """Prints the last cell's figures."""
        rows: List[Tuple[str, CellLoggerMemory]] = [("CPU", self.data.cpu)]
        if self._has_gpu:
            rows.append(("GPU", self.data.gpu))
        print((_report.compact_cell if self.compact else _report.cell)(rows, self.time_delta))

    def gpu_clear_cache(self) -> None:
        """Frees the unused memory of the experiment's backend."""
        experiment = self._experiment() if self._experiment is not None else None
        if experiment is None:
            super().gpu_clear_cache()
        else:
            experiment.gpu_clear_cache()

    def _device(self) -> Optional[int]:
        if not self._has_gpu:
            return None
        return _devices.current() if self.gpu_current_device_id is None else self.gpu_current_device_id

    def _drop_cells(self) -> None:
        for cell in self._open:
            cell.end()
        self._open, self._last = [], None
