"""`LineProfiler`: for each line of chosen functions, memory while it ran.

Columns are names of `torch.cuda.memory_stats`. `active_bytes.all.peak`, `allocated_bytes.all.peak` and
`reserved_bytes.all.peak` are the peaks while the line ran, what it called included; other columns are read when it
ends. A line that runs several times shows its greatest figures."""

import atexit
import functools
import inspect
import sys
from types import CodeType
from typing import Any, Callable, Dict, List, Optional, Sequence, TextIO, Tuple, Union

from ... import _pools, _meter
from ._lines import watcher
from ._table import RecordsDisplay, Table

__all__ = ["DEFAULT_COLUMNS", "LineProfiler", "profile", "profile_every", "set_target_gpu"]

DEFAULT_COLUMNS = ("active_bytes.all.peak", "reserved_bytes.all.peak")
Gpus = Union[int, Sequence[int]]


class LineProfiler:
    """Profiles the functions line by line between `enable` and `disable`, or within `with`.

    `target_gpu`: CUDA's ordinal, or several, each with a table of its own."""

    def __init__(self, *functions: Callable, target_gpu: Gpus = 0, **_: Any) -> None:
        self.target_gpu = target_gpu
        self.enabled = False
        self._functions: Dict[CodeType, Callable] = {}
        self._records: Dict[Tuple[CodeType, int], Dict[int, Dict[str, float]]] = {}
        # Of each running frame: the line that runs, and a mark for each card.
        self._running: Dict[int, Tuple[int, List[_meter.Mark]]] = {}
        self._watcher = watcher(self._seen)
        for function in functions:
            self.add_function(function)

    def _gpus(self) -> List[int]:
        return [self.target_gpu] if isinstance(self.target_gpu, int) else list(self.target_gpu)

    def add_function(self, func: Callable) -> None:
        """Adds a function, or a method; a decorated one is looked through."""
        inner = inspect.unwrap(func)
        inner = getattr(inner, "__func__", inner)
        code = getattr(inner, "__code__", None)
        if code is None:
            raise ValueError(f"{func!r} has no Python code that could be profiled")
        self._functions[code] = inner
        self._watcher.add(code)

    def enable(self) -> None:
        if not self.enabled:
            self.enabled = True
            self._watcher.start()

    def disable(self) -> None:
        if self.enabled:
            self.enabled = False
            self._watcher.stop()
            self._running.clear()

    def clear(self) -> None:
        """Forgets the figures."""
        self._records.clear()

    def __enter__(self) -> "LineProfiler":
        self.enable()
        return self

    def __exit__(self, *_: object) -> None:
        self.disable()

    def _seen(self, key: int, code: CodeType, line: Optional[int]) -> None:
        """A line begins in a frame, or (None) the frame is left."""
        running = self._running.pop(key, None)
        marks = running[1] if running is not None else []
        if running is not None:
            for mark in marks:
                self._record(code, running[0], mark)
        if line is None:
            for mark in marks:
                mark.end()
            return
        gpus = self._gpus()
        if [mark.device for mark in marks] == gpus:
            for mark in marks:
                mark.reset()
        else:
            marks = [_meter.Mark(gpu, name=code.co_name) for gpu in gpus]
        self._running[key] = line, marks

    def _record(self, code: CodeType, line: int, mark: _meter.Mark) -> None:
        figures = self._records.setdefault((code, mark.device), {}).setdefault(line, {})
        for column, value in _stats(mark).items():
            figures[column] = max(value, figures.get(column, value))

    def display(self, func: Optional[Callable] = None, columns: Sequence[str] = DEFAULT_COLUMNS) -> RecordsDisplay:
        """The figures of one function, or of all: an object that prints as text and shows as HTML."""
        tables = []
        wanted = None if func is None else getattr(inspect.unwrap(func), "__code__", None)
        gpus = self._gpus()
        for code, function in self._functions.items():
            if func is not None and code is not wanted:
                continue
            try:
                lines, first = inspect.getsourcelines(function)
            except OSError:
                lines, first = [], code.co_firstlineno
            for gpu in gpus:
                name = function.__qualname__.split("<locals>.")[-1]
                name += f" on GPU {gpu}" if len(gpus) > 1 else ""
                tables.append(Table(name, first, lines, columns, self._records.get((code, gpu), {})))
        return RecordsDisplay(tables)

    def print_stats(self, func: Optional[Callable] = None, columns: Sequence[str] = DEFAULT_COLUMNS,
                    stream: Optional[TextIO] = None) -> None:
        """Prints the figures of one function, or of all."""
        print(self.display(func, columns), file=stream if stream is not None else sys.stdout)


def _stats(mark: _meter.Mark) -> Dict[str, float]:
    """PyTorch's statistics now, with the peaks since the mark. In a program without PyTorch (and with the hooks) what
    CUDA was asked for stands for active bytes, and what the card gave for reserved ones."""
    if "torch" not in sys.modules and mark.source == "hooks":
        asked, given = mark.read(_meter.DRIVER).peak, mark.read(_meter.PHYSICAL).peak
        return {
            "active_bytes.all.peak": asked, "allocated_bytes.all.peak": asked, "reserved_bytes.all.peak": given
        }
    torch = _pools.torch_in_use()
    stats: Dict[str, float] = dict(torch.cuda.memory_stats(mark.device)) if torch is not None else {}
    peak = mark.read(_meter.TENSOR).peak
    stats["active_bytes.all.peak"] = stats["allocated_bytes.all.peak"] = peak
    reserved = stats.get("reserved_bytes.all.current", 0)
    highest = stats.get("reserved_bytes.all.peak", 0)
    if mark.source == "hooks":
        # Above what is reserved now there was what the driver has got back since its peak.
        driver = mark.read(_meter.DRIVER)
        stats["reserved_bytes.all.peak"] = min(reserved + driver.peak - driver.live, max(highest, reserved))
    else:
        stats["reserved_bytes.all.peak"] = reserved
    return stats


global_line_profiler = LineProfiler()


def set_target_gpu(gpu_id: Gpus) -> None:
    """The card, or cards, that `profile` and `profile_every` look at from now on."""
    global_line_profiler.target_gpu = gpu_id


def profile(func: Callable, columns: Sequence[str] = DEFAULT_COLUMNS) -> Callable:
    """Profiles a function in every call, and prints its lines when the program ends."""
    global_line_profiler.add_function(func)
    global_line_profiler.enable()
    atexit.register(global_line_profiler.print_stats, func, columns)
    return func


def profile_every(output_interval: int = 1, enable: bool = True,
                  columns: Sequence[str] = DEFAULT_COLUMNS) -> Callable[[Callable], Callable]:
    """Profiles a function, and prints its lines after every `output_interval`-th call."""

    def decorate(func: Callable) -> Callable:
        if not enable:
            return func
        global_line_profiler.add_function(func)
        global_line_profiler.enable()
        calls = [0]

        @functools.wraps(func)
        def counted(*args: Any, **kwargs: Any) -> Any:
            try:
                return func(*args, **kwargs)
            finally:
                calls[0] += 1
                if calls[0] % output_interval == 0:
                    global_line_profiler.print_stats(func, columns)

        return counted

    return decorate
