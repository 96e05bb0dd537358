"""The line profiler with `sys.settrace` from which Pytorch-Memory-Utils developed.

    sys.settrace(gpumem.compat.gpu_profile.gpu_profile)

writes after each line the used memory of the card, and the tensors that were added and removed, to
`gpu_profile_fn`. It names the line that has run, not the next one; a traced module needs no file; `GPU_DEBUG`
selects the card by CUDA's ordinal. A `LineProfiler` of `gpumem.compat.pytorch_memlab` costs less."""

import datetime
import os
import sys
from types import FrameType
from typing import Any, Callable, Dict, Iterator, Optional, Set, Tuple

from .._inside import meter as _meter
from ._tensors import six, tensors, visible

__all__ = ["get_tensors", "gpu_profile", "gpu_profile_fn", "print_tensor_sizes"]

_MB = 2**20
_Row = Tuple[str, str, str, str]

print_tensor_sizes = True
gpu_profile_fn = f"{datetime.datetime.now():%d-%b-%y-%H:%M:%S}-gpu_mem_prof.txt"

# The running line of each frame, and the rows after the previous one.
_running: Dict[int, str] = {}
_last_rows: Dict[_Row, None] = {}
_born: Dict[int, str] = {}


def _device() -> Optional[int]:
    chosen = os.environ.get("GPU_DEBUG", "")
    return int(chosen) if chosen.isdigit() else None


def get_tensors() -> Iterator[Any]:
    """Every tensor on the card that Python can access."""
    device = _device()
    if "torch" in sys.modules:
        yield from tensors(_meter.current() if device is None else device)


def gpu_profile(frame: FrameType, event: str, arg: Any = None) -> Callable[..., Any]:
    """The trace function: writes a row when a line has run."""
    key = id(frame)
    if event == "line":
        _finish(key)
        module = frame.f_globals.get("__name__", "?")
        _running[key] = f"{module} {frame.f_code.co_name}: line {frame.f_lineno}"
    elif event == "return":
        _finish(key)
    return gpu_profile


def _finish(key: int) -> None:
    where = _running.pop(key, None)
    if where is None:
        return
    device = _device()
    used = _meter.card_memory(device).used / _MB
    text = f"At {where:<50}Total Used Memory:{used:<7.1f}Mb\n"
    if print_tensor_sizes and "torch" in sys.modules:
        rows = _rows(where, _meter.current() if device is None else device)
        text += "".join(_line("+", row) for row in rows if row not in _last_rows)
        text += "".join(_line("-", row) for row in _last_rows if row not in rows)
        _last_rows.clear()
        _last_rows.update(rows)
    with open(gpu_profile_fn, "a", encoding="utf-8") as file:
        file.write(text)


def _rows(where: str, device: int) -> Dict[_Row, None]:
    """The memories on the card, the largest first, each with the line after which it was first found."""
    seen = sorted(visible(device), key=lambda one: -one.bytes)
    here: Set[int] = set()
    rows: Dict[_Row, None] = {}
    for tensor, size in seen:
        here.add(id(tensor))
        born = _born.setdefault(id(tensor), where)
        rows[born, str(tuple(tensor.size())), six(size / _MB), str(type(tensor))] = None
    for gone in _born.keys() - here:
        del _born[gone]
    return rows


def _line(sign: str, row: _Row) -> str:
    where, shape, size, kind = row
    return f"{sign} {where:<50} {shape:<20} {size} M {kind:<10}\n"
