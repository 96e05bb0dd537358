"""A recorded capture, read from Python: `gpumem.open("report.bin")`."""

from __future__ import annotations

import os
import warnings
import weakref
from pathlib import Path
from types import TracebackType
from typing import Any, List, Literal, Optional, Sequence, Type, Union, overload

from .._machine import installed
from .._machine.ordinals import DeviceLike, ordinal
from . import analysis
from .events import Child, Events, PartialCapture
from .results import CategoryRow, LineRow, ModuleRow, Rows, Summary, categories_of, lines_of, modules_of, summary_of

# A point in time: "peak", "end", "oom", "1.5s", "step=3", or the number of an event.
Moment = Union[str, int]
Level = Literal["tensor", "driver", "host"]

_LEVELS = ("tensor", "driver", "host")
_BY = ("line", "module", "category")


def open(path: Union[str, "os.PathLike[str]"]) -> Capture:
    """Opens a capture for reading. Raises FileNotFoundError if the file or gpumem-analyze does not exist."""
    return Capture(path)


class Capture:
    """A capture. Each method reads the current file, so the capture of a running program can be open, too.

    Figures are bytes. A damaged or unfinished capture gives partial results, with the warning `PartialCapture`. The methods raise
    `Unreadable` if gpumem-analyze has no result, and ValueError if the capture is closed or an argument is invalid."""

    def __init__(self, path: Union[str, "os.PathLike[str]"], analyzer: Optional[Path] = None) -> None:
        self._path = Path(os.fspath(path))
        # The system's error, with its number and the file's name.
        os.stat(self._path)
        self._analyzer = analyzer or installed.analyzer_or_error()
        self._children: "weakref.WeakSet[Child]" = weakref.WeakSet()
        self._closed = False

    @property
    def path(self) -> Path:
        """The capture's file."""
        return self._path

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    def summary(self) -> Summary:
        """The figures of each device and level: see `gpumem-analyze report --all`."""
        return summary_of(self._ask("report", ["--all"]))

    @overload
    def lines(
        self, at: Moment = ..., level: Optional[Level] = ..., by: Literal["line"] = ..., *, device: Optional[DeviceLike] = ...,
        phase: Optional[str] = ..., step: Optional[int] = ..., category: Optional[str] = ..., file: Optional[str] = ...,
        function: Optional[str] = ..., library: Optional[str] = ..., module: Optional[str] = ..., size: Optional[str] = ...,
    ) -> Rows[LineRow]: ...  # fmt: skip

    @overload
    def lines(
        self, at: Moment = ..., level: Optional[Level] = ..., *, by: Literal["module"], device: Optional[DeviceLike] = ...,
        phase: Optional[str] = ..., step: Optional[int] = ..., category: Optional[str] = ..., file: Optional[str] = ...,
        function: Optional[str] = ..., library: Optional[str] = ..., module: Optional[str] = ..., size: Optional[str] = ...,
    ) -> Rows[ModuleRow]: ...  # fmt: skip

    @overload
    def lines(
        self, at: Moment = ..., level: Optional[Level] = ..., *, by: Literal["category"], device: Optional[DeviceLike] = ...,
        phase: Optional[str] = ..., step: Optional[int] = ..., category: Optional[str] = ..., file: Optional[str] = ...,
        function: Optional[str] = ..., library: Optional[str] = ..., module: Optional[str] = ..., size: Optional[str] = ...,
    ) -> Rows[CategoryRow]: ...  # fmt: skip

    def lines(
        self, at: Moment = "peak", level: Optional[Level] = None, by: str = "line", *, device: Optional[DeviceLike] = None,
        phase: Optional[str] = None, step: Optional[int] = None, category: Optional[str] = None, file: Optional[str] = None,
        function: Optional[str] = None, library: Optional[str] = None, module: Optional[str] = None, size: Optional[str] = None,
    ) -> Any:  # fmt: skip
        """The owners of a level at a point in time, the largest first. The arguments are the options of `gpumem-analyze
        lines`. `by`: "line", "module" (of PyTorch) or "category"; it selects the type of the rows, `LineRow`, `ModuleRow` or
        `CategoryRow`."""
        if by not in _BY:
            raise ValueError(f"by={by!r}: expected one of {', '.join(_BY)}")
        options = [f"--at={at}", f"--by={by}"]
        options += _part(level, device, file, function, library, module, size)
        for name, value in (("phase", phase), ("step", step), ("category", category)):
            if value is not None:
                options.append(f"--{name}={value}")
        rows = self._ask("lines", options)
        return {"line": lines_of, "module": modules_of, "category": categories_of}[by](rows)

    def events(
        self, level: Optional[Level] = None, *, columns: Sequence[str] = (), device: Optional[DeviceLike] = None,
        file: Optional[str] = None, function: Optional[str] = None, library: Optional[str] = None,
        module: Optional[str] = None, size: Optional[str] = None,
    ) -> Events:  # fmt: skip
        """The events in order, as Arrow record batches. The arguments are the filters of `gpumem-analyze export`.
        `columns`: the names of the columns that you need, which is faster than all columns. Iterating raises ImportError without pyarrow."""
        self._check_open()
        options = _part(level, device, file, function, library, module, size)
        if columns:
            options.append(f"--columns={','.join(columns)}")
        return Events(lambda: self._start(options))

    def to_frame(self) -> Any:
        """All events as a pandas DataFrame, one row each. Raises ImportError without pyarrow and pandas."""
        return self.events().to_frame()

    def to_polars(self) -> Any:
        """All events as a polars DataFrame, one row each. Raises ImportError without pyarrow and polars."""
        return self.events().to_polars()

    def close(self) -> None:
        """Ends all reads of the capture. Further calls raise ValueError."""
        self._closed = True
        for child in list(self._children):
            child.close()

    def __enter__(self) -> Capture:
        self._check_open()
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<gpumem capture {str(self._path)!r}{', closed' if self._closed else ''}>"

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError(f"{self._path}: the capture is closed")

    def _ask(self, view: str, options: Sequence[str] = ()) -> Any:
        self._check_open()
        body, missing, _ = analysis.ask(self._analyzer, self._path, view, options)
        for line in missing:
            warnings.warn(f"{self._path}: {line}", PartialCapture, stacklevel=3)
        return body

    def _start(self, options: Sequence[str]) -> Child:
        self._check_open()
        child = Child(self._analyzer, self._path, options)
        self._children.add(child)
        return child


def _part(
    level: Optional[str], device: Optional[DeviceLike], file: Optional[str], function: Optional[str], library: Optional[str],
    module: Optional[str], size: Optional[str],
) -> List[str]:  # fmt: skip
    """The options for a part of a capture. Each value is joined to its option, because it may begin with a dash."""
    if level is not None and level not in _LEVELS:
        raise ValueError(f"level={level!r}: expected one of {', '.join(_LEVELS)}")
    values = (
        ("level", level), ("device", None if device is None else ordinal(device)), ("file", file), ("function", function),
        ("library", library), ("module", module), ("size", size),
    )  # fmt: skip
    return [f"--{name}={value}" for name, value in values if value is not None]
