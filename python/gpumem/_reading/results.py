"""Typed rows of a capture's views."""

from __future__ import annotations

from typing import Any, Dict, Generic, Iterable, List, NamedTuple, Optional, Protocol, Sequence, Tuple, Type, TypeVar

from .._machine.ordinals import DeviceLike, ordinal


class LineRow(NamedTuple):
    """The memory that a line of code owns. `file`, `line` and `function` are None if no line is known: `library` or `node`
    then names the owner. `phase`, `node` and `workspace` are set if they apply to all of the memory."""

    device: Optional[int]  #: The device's ordinal; None: pinned memory of no device.
    file: Optional[str]  #: The file's name.
    line: Optional[int]  #: The line's number.
    function: Optional[str]  #: The function's name.
    bytes: int  #: Bytes that the line owns.
    blocks: int  #: The number of its blocks.
    phase: Optional[str] = None  #: The phase in which it allocated them.
    node: Optional[str] = None  #: The class of autograd's node that allocated them.
    library: Optional[str] = None  #: The library that allocated them.
    workspace: bool = False  #: Whether they are workspaces of CUDA's libraries.
    error_bytes: Optional[int] = None  #: With sampled stacks: the standard error of `bytes`; None: exact.
    categories: Tuple[Tuple[str, int], ...] = ()  #: Category and bytes of its tensors, the largest first.
    file_relative: Optional[str] = None  #: The file's name relative to the program's folder; None: outside of it.


class ModuleRow(NamedTuple):
    """The memory that a PyTorch module owns."""

    device: Optional[int]  #: The device's ordinal.
    module: Optional[str]  #: The module's name; None: no module allocated it.
    class_: Optional[str]  #: The module's class.
    bytes: int  #: Bytes that the module owns.
    blocks: int  #: The number of its blocks.
    workspace: bool = False  #: Whether all of them are workspaces of CUDA's libraries.
    error_bytes: Optional[int] = None  #: With sampled stacks: the standard error of `bytes`; None: exact.


class CategoryRow(NamedTuple):
    """The memory of the tensors of a category."""

    device: Optional[int]  #: The device's ordinal.
    category: str  #: The category, as in `gpumem lines --by category`.
    bytes: int  #: Bytes of its tensors.
    blocks: int  #: The number of their blocks.


class _Row(Protocol):
    @property
    def device(self) -> Optional[int]: ...

    @property
    def bytes(self) -> int: ...


Row = TypeVar("Row", bound=_Row)


class Rows(List[Row], Generic[Row]):
    """A list of rows, for each device the largest first."""

    def __init__(self, columns: Sequence[str], rows: Iterable[Row] = ()) -> None:
        super().__init__(rows)
        self._columns = tuple(columns)

    def total(self, device: DeviceLike = 0) -> int:
        """Bytes of all rows of a device: the level's figure at that point in time."""
        of = ordinal(device)
        return sum(row.bytes for row in self if row.device == of)

    def to_frame(self) -> Any:
        """The rows as a pandas DataFrame, with their fields as columns. Raises ImportError without pandas."""
        return frame("to_frame()", self, self._columns)

    def to_polars(self) -> Any:
        """The rows as a polars DataFrame, with their fields as columns. Raises ImportError without polars."""
        polars = needed("polars", "to_polars()")
        return polars.DataFrame({name: [getattr(row, name) for row in self] for name in self._columns}, strict=False)


class LevelFigures(NamedTuple):
    """A level of a device. None: it was not measured, or the level does not count it."""

    live_bytes: Optional[int]  #: Bytes that are live at the end.
    peak_bytes: Optional[int]  #: The most bytes that were live at once.
    allocations: Optional[int] = None  #: The number of allocations.
    frees: Optional[int] = None  #: The number of frees.


_LEVELS = ("tensor", "driver", "host", "reserved", "physical")


class DeviceSummary(NamedTuple):
    """A device's figures."""

    ordinal: int  #: Its number in the process.
    name: Optional[str]  #: CUDA's name of it.
    uuid: Optional[str]  #: Its UUID.
    total_bytes: Optional[int]  #: The card's memory.
    tensor: LevelFigures  #: Tensors in the framework's pool.
    driver: LevelFigures  #: Memory that the process requested from CUDA.
    host: LevelFigures  #: Pinned host memory.
    reserved: LevelFigures  #: Memory that PyTorch's allocator has reserved.
    physical: LevelFigures  #: Memory of the card.
    unexplained_bytes: Optional[int]  #: Memory of the process on the card that no row of the ledger explains.


class Summary(NamedTuple):
    """The figures of a capture: of the whole, and of each device."""

    exact: bool  #: Whether the account is exact.
    events: int  #: The number of events.
    lost_events: int  #: Events that could not be recorded.
    steps: int  #: Training steps.
    out_of_memory_events: int  #: Allocations that failed.
    missing: List[str]  #: What is missing, one line each.
    notes: List[str]  #: What limits the figures, one line each.
    process: Dict[str, Any]  #: The recorded process: `pid`, `rank`, `argv` and others of `report --all --format json`.
    devices: List[DeviceSummary]  #: The devices that the process used.
    raw: Dict[str, Any]  #: All that `gpumem-analyze report --all --format json` prints.

    def device(self, device: DeviceLike = 0) -> DeviceSummary:
        """The figures of a device. Raises KeyError if the capture does not have it."""
        of = ordinal(device)
        for found in self.devices:
            if found.ordinal == of:
                return found
        raise KeyError(f"the capture has no GPU {of}")

    def to_frame(self) -> Any:
        """A pandas DataFrame with a row for each device and level. Raises ImportError without pandas."""
        rows = [
            (device.ordinal, level, *getattr(device, level)) for device in self.devices for level in _LEVELS
        ]  # fmt: skip
        return frame("to_frame()", rows, ("device", "level", *LevelFigures._fields))


def summary_of(raw: Dict[str, Any]) -> Summary:
    """A summary from the analyzer's data."""
    devices = []
    for of in raw["devices"]:
        levels = {level: _of(LevelFigures, of[level], LevelFigures._fields) for level in _LEVELS}
        devices.append(_of(DeviceSummary, {**of, **levels}, ("name", "uuid", "total_bytes", "unexplained_bytes")))
    found: Summary = _of(Summary, {**raw, "devices": devices, "raw": raw})
    return found


def lines_of(rows: Iterable[Dict[str, Any]]) -> Rows[LineRow]:
    """Rows of lines from the analyzer's data."""
    parts = ((row, row.get("categories", ())) for row in rows)
    return _rows(LineRow, ({**row, "categories": tuple((of["category"], of["bytes"]) for of in some)} for row, some in parts))


def modules_of(rows: Iterable[Dict[str, Any]]) -> Rows[ModuleRow]:
    """Rows of modules from the analyzer's data."""
    return _rows(ModuleRow, ({**row, "class_": row["class"]} for row in rows))


def categories_of(rows: Iterable[Dict[str, Any]]) -> Rows[CategoryRow]:
    """Rows of categories from the analyzer's data."""
    return _rows(CategoryRow, rows)


def _rows(kind: Type[Row], rows: Iterable[Dict[str, Any]]) -> Rows[Row]:
    return Rows(kind._fields, (_of(kind, row) for row in rows))  # type: ignore[attr-defined]


def _of(kind: Any, data: Dict[str, Any], optional: Sequence[str] = ()) -> Any:
    """A named tuple of the keys that are its fields. Keys of fields with a default, and `optional` ones, may be missing."""
    defaults = {**dict.fromkeys(optional), **kind._field_defaults}
    return kind(*(data.get(name, defaults[name]) if name in defaults else data[name] for name in kind._fields))


def frame(what: str, rows: Sequence[Any], columns: Sequence[str]) -> Any:
    """A pandas DataFrame."""
    return needed("pandas", what).DataFrame(list(rows), columns=list(columns))


def needed(package: str, what: str) -> Any:
    """Imports a package that `what` needs."""
    import importlib

    try:
        return importlib.import_module(package)
    except ImportError:
        raise ImportError(f"{what} needs {package}, which is not installed: pip install {package}") from None
