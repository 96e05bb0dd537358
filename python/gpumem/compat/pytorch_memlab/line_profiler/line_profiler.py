"""`LineProfiler`: the memory of each line of chosen functions.

Columns are names of `torch.cuda.memory_stats`; `_figures` describes their meaning for a line. A line that runs
several times shows its highest figures."""

import inspect
import operator
import sys
import warnings
from types import CodeType
from typing import Any, Callable, Dict, List, Optional, Sequence, TextIO, Tuple, Union

from ...._inside import meter as _meter, pools as _pools
from ...._machine import devices as _devices
from ._figures import Gauge
from ._lines import watcher
from .line_records import RecordsDisplay, Table, check_columns

__all__ = ["DEFAULT_COLUMNS", "LineProfiler"]

DEFAULT_COLUMNS = ("active_bytes.all.peak", "reserved_bytes.all.peak")
Gpu = Union[int, str, Any]  # also a torch.device
Gpus = Union[Gpu, Sequence[Gpu]]
Wanted = Union[None, str, Sequence[str], Callable[..., Any]]
# The figures of one function's lines, for one card (its ordinal), or for the target card (None).
_Key = Tuple[CodeType, Optional[int]]
_Figures = Dict[int, Dict[str, float]]

_NO_DEVICE = "Could not find CUDA deivces and reset CUDA stats and cache"


class LineProfiler:
    """Profiles the functions line by line between `enable` and `disable`, or within `with`.

    `target_gpu`: CUDA's ordinal or a `torch.device`, which may change at any time; or several, each with a separate
    table."""

    def __init__(self, *functions: Callable[..., Any], target_gpu: Gpus = 0) -> None:
        self.target_gpu = target_gpu
        self.enabled = False
        self._functions: Dict[CodeType, Callable[..., Any]] = {}
        self._records: Dict[_Key, _Figures] = {}
        # For each running frame: the line that runs, and a gauge for each card.
        self._running: Dict[int, Tuple[int, List[Gauge]]] = {}
        self._watcher = watcher(self._seen)
        for function in functions:
            self.add_function(function)

    def add_function(self, func: Callable[..., Any]) -> None:
        """Adds a function or a method; decorators are unwrapped."""
        inner = inspect.unwrap(func)
        inner = getattr(inner, "__func__", inner)
        code = getattr(inner, "__code__", None)
        if code is None:
            warnings.warn(f"Could not extract a code object for the object {func!r}", stacklevel=2)
            return
        self._functions[code] = inner
        self._watcher.add(code)

    def has_device(self) -> bool:
        """Whether there is a card to measure."""
        return bool(_devices.visible())

    def enable(self) -> None:
        """Empties the caches and starts profiling. Without a card it prints a message and does nothing."""
        if not self.has_device():
            print(_NO_DEVICE)
            return
        _pools.empty_caches()
        if not self.enabled:
            self.enabled = True
            self._watcher.start()

    def disable(self) -> None:
        if self.enabled:
            self.enabled = False
            self._watcher.stop()
            self._running.clear()

    def clear(self) -> None:
        """Removes the functions and their figures."""
        self._watcher.forget()
        self._functions.clear()
        self._records.clear()
        self._running.clear()

    def __enter__(self) -> "LineProfiler":
        self.enable()
        return self

    def __exit__(self, *_: object) -> None:
        self.disable()

    def _several(self) -> bool:
        return isinstance(self.target_gpu, (list, tuple, range, set, frozenset))

    def _gpus(self) -> List[int]:
        wanted: Any = self.target_gpu
        return list(map(_ordinal, wanted if self._several() else [wanted]))

    def _seen(self, key: int, code: CodeType, line: Optional[int]) -> None:
        """A line begins in a frame, or (None) the frame is left."""
        gpus = self._gpus()
        ended = self._running.pop(key, None)
        if ended is None:
            if line is not None and code in self._functions:
                self._running[key] = line, [Gauge(gpu, code.co_name) for gpu in gpus]
            return
        last, gauges = ended
        if [gauge.gpu for gauge in gauges] != gpus:  # the target was changed in the line that ends
            for gauge in gauges:
                gauge.end()
            gauges = [Gauge(gpu, code.co_name) for gpu in gpus]
        for gauge in gauges:
            self._record(code, last, gauge)
        if line is None:
            for gauge in gauges:
                gauge.end()
        else:
            self._running[key] = line, gauges

    def _record(self, code: CodeType, line: int, gauge: Gauge) -> None:
        records = self._records.setdefault((code, gauge.gpu if self._several() else None), {})
        figures = records.setdefault(line, {})
        for column, value in gauge.take().items():
            figures[column] = max(value, figures.get(column, value))

    def display(self, func: Wanted = None, columns: Sequence[str] = DEFAULT_COLUMNS) -> RecordsDisplay:
        """The figures of one function (or of functions by name), or of all: an object that prints as text and shows
        as HTML."""
        if self._records:
            check_columns(columns, [row for records in self._records.values() for row in records.values()])
        tables = [
            self._table(function, key[1], columns, self._records[key])
            for code, function in self._functions.items()
            if _is_wanted(code, function, func)
            for key in self._records
            if key[0] is code
        ]
        return RecordsDisplay(tables)

    def _table(self, function: Callable[..., Any], gpu: Optional[int], columns: Sequence[str], figures: _Figures) -> Table:
        try:
            lines, first = inspect.getsourcelines(function)
        except OSError:
            lines, first = [], function.__code__.co_firstlineno
        name = function.__qualname__ if gpu is None else f"{function.__qualname__} on GPU {gpu}"
        return Table(name, first, lines, columns, figures)

    def print_stats(self, func: Wanted = None, columns: Sequence[str] = DEFAULT_COLUMNS,
                    stream: Optional[TextIO] = None) -> None:
        """Prints the figures of one function, or of all."""
        (sys.stdout if stream is None else stream).write(str(self.display(func, columns)))


def _ordinal(gpu: Gpu) -> int:
    """The ordinal of a number, `cuda:1`, or a `torch.device`; without a number, the current device."""
    if isinstance(gpu, str):
        number = gpu.partition(":")[2]
        return int(number) if number else _meter.current()
    if hasattr(gpu, "index") and hasattr(gpu, "type"):
        return _meter.current() if gpu.index is None else int(gpu.index)
    return operator.index(gpu)


def _is_wanted(code: CodeType, function: Callable[..., Any], wanted: Wanted) -> bool:
    if wanted is None:
        return True
    if callable(wanted):
        return code is getattr(inspect.unwrap(wanted), "__code__", None)
    return function.__qualname__ in ([wanted] if isinstance(wanted, str) else wanted)
