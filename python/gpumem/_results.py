"""Typed rows of a capture's views."""

from __future__ import annotations

from typing import Any, Dict, Generic, Iterable, List, NamedTuple, Optional, Protocol, Sequence, Tuple, TypeVar

from ._ordinals import DeviceLike, ordinal

__all__ = ["CategoryRow", "DeviceSummary", "LevelFigures", "LineRow", "ModuleRow", "Rows", "Summary"]


class LineRow(NamedTuple):
    """The memory that a line of code owns. `file`, `line` and `function` are None if no line is known: `library` or `node`
    then names the owner. `phase`, `node` and `workspace` are set if they apply to all of the memory. `file_relative` is the
    file's name relative to the program's folder, or None outside of it."""

    device: Optional[int]
    file: Optional[str]
    line: Optional[int]
    function: Optional[str]
    bytes: int
    blocks: int
    phase: Optional[str] = None
    node: Optional[str] = None
    library: Optional[str] = None
    workspace: bool = False
    error_bytes: Optional[int] = None
    categories: Tuple[Tuple[str, int], ...] = ()
    file_relative: Optional[str] = None


class ModuleRow(NamedTuple):
    """The memory that a PyTorch module owns; `module` is None for memory that no module allocated."""

    device: Optional[int]
    module: Optional[str]
    class_: Optional[str]
    bytes: int
    blocks: int
    workspace: bool = False
    error_bytes: Optional[int] = None


class CategoryRow(NamedTuple):
    """The memory of the tensors of a category."""

    device: Optional[int]
    category: str
    bytes: int
    blocks: int


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
        """The rows as a pandas DataFrame."""
        return frame("to_frame()", self, self._columns)

    def to_polars(self) -> Any:
        """The rows as a polars DataFrame."""
        polars = needed("polars", "to_polars()")
        return polars.DataFrame({name: [getattr(row, name) for row in self] for name in self._columns}, strict=False)


class LevelFigures(NamedTuple):
    """A level of a device. None: it was not measured, or the level does not count it."""

    live_bytes: Optional[int]
    peak_bytes: Optional[int]
    allocations: Optional[int] = None
    frees: Optional[int] = None


_LEVELS = ("tensor", "driver", "host", "reserved", "physical")


class DeviceSummary(NamedTuple):
    """A device's figures."""

    ordinal: int
    name: Optional[str]
    uuid: Optional[str]
    total_bytes: Optional[int]
    tensor: LevelFigures
    driver: LevelFigures
    host: LevelFigures
    reserved: LevelFigures
    physical: LevelFigures
    unexplained_bytes: Optional[int]


class Summary(NamedTuple):
    """The figures of each device. `raw` is the whole content of `gpumem-analyze report --all --format json`."""

    exact: bool
    events: int
    lost_events: int
    steps: int
    out_of_memory_events: int
    missing: List[str]
    notes: List[str]
    process: Dict[str, Any]
    devices: List[DeviceSummary]
    raw: Dict[str, Any]

    def device(self, device: DeviceLike = 0) -> DeviceSummary:
        """The figures of a device; KeyError if the capture does not have it."""
        of = ordinal(device)
        for found in self.devices:
            if found.ordinal == of:
                return found
        raise KeyError(f"the capture has no GPU {of}")

    def to_frame(self) -> Any:
        """A pandas DataFrame with a row for each device and level."""
        rows = [
            (device.ordinal, level, *getattr(device, level)) for device in self.devices for level in _LEVELS
        ]  # fmt: skip
        return frame("to_frame()", rows, ("device", "level", *LevelFigures._fields))


def summary_of(raw: Dict[str, Any]) -> Summary:
    """A summary from the analyzer's data."""
    devices = [
        DeviceSummary(
            of["ordinal"], of.get("name"), of.get("uuid"), of.get("total_bytes"),
            _figures(of["tensor"]), _figures(of["driver"]), _figures(of["host"]), _figures(of["reserved"]),
            _figures(of["physical"]), of.get("unexplained_bytes"),
        )
        for of in raw["devices"]
    ]  # fmt: skip
    return Summary(
        raw["exact"], raw["events"], raw["lost_events"], raw["steps"], raw["out_of_memory_events"], raw["missing"],
        raw["notes"], raw["process"], devices, raw,
    )  # fmt: skip


def _figures(of: Dict[str, Any]) -> LevelFigures:
    return LevelFigures(of.get("live_bytes"), of.get("peak_bytes"), of.get("allocations"), of.get("frees"))


def lines_of(rows: Sequence[Dict[str, Any]]) -> Rows[LineRow]:
    """Rows of lines from the analyzer's data."""
    found = [
        LineRow(
            row["device"], row["file"], row["line"], row["function"], row["bytes"], row["blocks"], row.get("phase"),
            row.get("node"), row.get("library"), row.get("workspace", False), row.get("error_bytes"),
            tuple((of["category"], of["bytes"]) for of in row.get("categories", ())),
            row.get("file_relative"),
        )
        for row in rows
    ]  # fmt: skip
    return Rows(LineRow._fields, found)


def modules_of(rows: Sequence[Dict[str, Any]]) -> Rows[ModuleRow]:
    """Rows of modules from the analyzer's data."""
    found = [
        ModuleRow(
            row["device"], row["module"], row["class"], row["bytes"], row["blocks"], row.get("workspace", False),
            row.get("error_bytes"),
        )
        for row in rows
    ]  # fmt: skip
    return Rows(ModuleRow._fields, found)


def categories_of(rows: Sequence[Dict[str, Any]]) -> Rows[CategoryRow]:
    """Rows of categories from the analyzer's data."""
    found = (CategoryRow(row["device"], row["category"], row["bytes"], row["blocks"]) for row in rows)
    return Rows(CategoryRow._fields, found)


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
