"""`gpu_mem_track` of Pytorch-Memory-Utils: the tensors that were added and removed between two lines.

Both signatures exist: `MemTracker()` writes allocated memory, `MemTracker(inspect.currentframe())` the card's used
memory in the older format. Differences from the original: figures are rounded, not cut; rows are sorted, the largest
first; each memory counts once, also with several views; sizes depend on the type; only `device` is measured. Memory
without a Python object (of autograd or C++) has a separate row."""

import datetime
import inspect
from types import FrameType
from typing import Any, Dict, Iterator, List, Optional, TextIO, Tuple

from .._inside import meter as _meter, pools as _pools
from ._tensors import Seen, dtype_bytes, six, tensors, unseen, visible

__all__ = ["MemTracker", "get_mem_space"]

_MB = 2**20
_DECIMAL_MB = 1e6
_HIDDEN = ("hidden",)
_Rows = Dict[Tuple[Any, ...], Tuple[int, int]]


def __getattr__(name: str) -> Any:
    """`dtype_memory_size_dict`: bytes of one number of each PyTorch type. It is created at the first access, because
    it needs PyTorch."""
    if name != "dtype_memory_size_dict":
        raise AttributeError(f"module 'gpu_mem_track' has no attribute {name!r}")
    return globals().get(f"_{name}") or globals().setdefault(f"_{name}", dtype_bytes())


def get_mem_space(x: Any) -> float:
    """Bytes of one number of a type. KeyError for an unknown type."""
    sizes: Dict[Any, float] = __getattr__("dtype_memory_size_dict")
    if x not in sizes:
        print(f"dtype {x} is not supported!")
    return sizes[x]


class MemTracker:
    """`MemTracker(detail=True, path="", verbose=False, device=0)`, or with a frame as first argument: writes one
    paragraph per `track()` to `path` + the time + `-gpu_mem_track.txt`.

    `frame` (older form): its name is used for lines; `detail`: writes the added and removed tensors, not only sums;
    `verbose`: prints the error of each object that cannot be inspected; `device`: CUDA's ordinal."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and isinstance(args[0], FrameType):
            kwargs["frame"], args = args[0], args[1:]
        self.frame: Optional[FrameType] = kwargs.pop("frame", None)
        self.older = self.frame is not None
        if self.frame is not None:
            self.func_name = self.frame.f_code.co_name
            self.module_name = self.frame.f_globals.get("__name__", "?")
            self.filename = self.frame.f_globals.get("__file__", self.frame.f_code.co_filename)
            self.curr_line = self.frame.f_lineno
        self._set_up(*args, **kwargs)

    def _set_up(self, detail: bool = True, path: str = "", verbose: bool = False, device: int = 0) -> None:
        self.print_detail = detail
        self.verbose = verbose
        self.device = device
        self.begin = True
        self.last_rows: _Rows = {}
        now = datetime.datetime.now()
        self.gpu_profile_fn = path + f"{now:%d-%b-%y-%H:%M:%S}-gpu_mem_track.txt"

    def get_tensors(self) -> Iterator[Any]:
        """Every tensor on the device that Python can access."""
        yield from tensors(self.device, self._trouble)

    def _trouble(self, error: Exception) -> None:
        if self.verbose:
            print(f"A trivial exception occured: {error}")

    def get_tensor_usage(self) -> float:
        """MB of the tensors that Python can access, each memory once."""
        return sum(seen.bytes for seen in visible(self.device, self._trouble)) / _MB

    def get_allocate_usage(self) -> float:
        """Allocated MB of the framework's pool, for all owners."""
        return _meter.used(self.device, _meter.TENSOR) / _MB

    def clear_cache(self) -> None:
        """Collects garbage and empties the framework's cache."""
        _pools.empty_caches(collect=True)

    def print_all_gpu_tensor(self, file: Optional[TextIO] = None) -> None:
        """Prints size, type and MB of every tensor that Python can access, each memory once."""
        for seen in visible(self.device, self._trouble):
            print(seen.tensor.size(), seen.tensor.dtype, seen.bytes / _MB, file=file)

    def track(self) -> None:
        """Writes the used memory, and the changes since the last call."""
        caller = inspect.currentframe()
        caller = caller.f_back if caller is not None else None
        seen = visible(self.device, self._trouble)
        text = ""
        if self.begin:
            text = f"GPU Memory Track | {datetime.datetime.now():%d-%b-%y-%H:%M:%S} | {self._usage(seen)}\n\n"
            self.begin = False
        if self.print_detail:
            rows = self._rows(seen)
            text += self._changes(rows)
            self.last_rows = rows
        # Only the newer format has a space after the 50 columns.
        text += f"\nAt {self._where(caller):<50}{'' if self.older else ' '}{self._usage(seen)}\n\n"
        with open(self.gpu_profile_fn, "a", encoding="utf-8") as file:
            file.write(text)

    def _where(self, caller: Optional[FrameType]) -> str:
        if self.older and self.frame is not None:
            frame = self.frame if caller is None or caller.f_code is not self.frame.f_code else caller
            self.curr_line = frame.f_lineno
            return f"{self.module_name} {self.func_name}: line {self.curr_line}"
        if caller is None:
            return "?"
        return f"{caller.f_code.co_filename} line {caller.f_lineno}: {caller.f_code.co_name}"

    def _usage(self, seen: List[Seen]) -> str:
        if self.older:
            return f"Total Used Memory:{_meter.card_memory(self.device).used / _DECIMAL_MB:<7.1f}Mb"
        held = sum(one.bytes for one in seen) / _MB
        allocated = self.get_allocate_usage()
        return f"Total Tensor Used Memory:{held:<7.1f}Mb Total Allocated Memory:{allocated:<7.1f}Mb"

    def _rows(self, seen: List[Seen]) -> _Rows:
        """Number and bytes of the memories for each size, type and width."""
        rows: _Rows = {}
        for tensor, size in seen:
            key = (tuple(tensor.size()), str(type(tensor)), str(tensor.dtype), size)
            number, total = rows.get(key, (0, 0))
            rows[key] = number + 1, total + size
        if not self.older:
            hidden = unseen(self.device, seen)
            if hidden:
                rows[_HIDDEN] = 1, hidden
        return rows

    def _changes(self, rows: _Rows) -> str:
        """The added and removed memories, by their number, the largest first."""
        came, went = [], []
        for key in {**self.last_rows, **rows}:
            number, total = rows.get(key, (0, 0))
            before, bytes_before = self.last_rows.get(key, (0, 0))
            if key == _HIDDEN:
                number, before = total, bytes_before
            if number > before:
                came.append((total - bytes_before, number - before, key))
            elif number < before:
                went.append((bytes_before - total, before - number, key))
        lines = [self._line("+", *row) for row in sorted(came, key=_largest_first)]
        lines += [self._line("-", *row) for row in sorted(went, key=_largest_first)]
        return "".join(lines)

    def _line(self, sign: str, size: int, number: int, key: Tuple[Any, ...]) -> str:
        unit = _DECIMAL_MB if self.older else _MB
        memory = six(size / unit)
        if key == _HIDDEN:
            return f"{sign} | held where Python sees no tensor  | Memory: {memory} M | autograd or C++\n"
        shape, kind, dtype, _ = key
        line = f"{sign} | {number} * Size:{str(shape):<20} | Memory: {memory} M | {kind:<20}"
        if self.older:  # rows of removed tensors end with a space there
            return line + (" \n" if sign == "-" else "\n")
        return f"{line} | {dtype}\n"


def _largest_first(row: Tuple[int, int, Tuple[Any, ...]]) -> Tuple[int, str]:
    return -row[0], str(row[2])
