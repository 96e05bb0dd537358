"""libgpumem.so in this process, through its C API (gpumem.h) and ctypes.

The library exists if it was preloaded. Without it every function here returns the result for a process that is not
recorded. The calls that take a microsecond keep the GIL: releasing it could cost a thread switch."""

import ctypes
import os
from pathlib import Path
from typing import Any, NamedTuple, Optional

TENSOR, DRIVER, HOST, PHYSICAL = LEVELS = (0, 1, 2, 3)

# The first API versions with these functions.
_SCOPES, _MODULES, _COORDS = 4, 6, 7


class CountersRow(ctypes.Structure):
    """struct gpumem_counters"""

    _fields_ = [(name, ctypes.c_uint64) for name in ("live", "peak", "allocations", "frees")]


class ScopeRow(ctypes.Structure):
    """struct gpumem_scope_figures"""

    _fields_ = [
        (name, ctypes.c_uint64) for name in ("start", "live", "peak", "allocations", "frees")
    ]


class _LoaderInfo(ctypes.Structure):
    """Dl_info"""

    _fields_ = [
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    ]


def _declared(library: ctypes.CDLL) -> ctypes.CDLL:
    integer, number = ctypes.c_int, ctypes.c_uint64
    library.gpumem_counters.argtypes = [integer, integer, ctypes.POINTER(CountersRow)]
    library.gpumem_report_path.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    library.gpumem_report_path.restype = ctypes.c_size_t
    if library.gpumem_api_version() >= _SCOPES:
        library.gpumem_scope_begin.argtypes = [ctypes.c_char_p]
        library.gpumem_scope_begin.restype = number
        library.gpumem_scope_read.argtypes = [number, integer, integer, ctypes.POINTER(ScopeRow)]
        for name in ("reset", "end", "forget"):
            getattr(library, "gpumem_scope_" + name).argtypes = [number]
        library.gpumem_mark.argtypes = [ctypes.c_char_p]
    if library.gpumem_api_version() >= _MODULES:
        library.gpumem_name_module.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
        library.gpumem_module_roots.argtypes = [ctypes.POINTER(ctypes.c_size_t), ctypes.c_size_t]
        library.gpumem_tell_tensors.argtypes = [ctypes.POINTER(ctypes.c_uint64), ctypes.c_size_t, ctypes.c_int]
        library.gpumem_tell_tensors.restype = ctypes.c_size_t
        library.gpumem_module_roots.restype = library.gpumem_module_count.restype = ctypes.c_size_t
    if library.gpumem_api_version() >= _COORDS:
        library.gpumem_coords.argtypes = [ctypes.c_char_p]
    return library


def _find() -> Optional[ctypes.CDLL]:
    """The preloaded library, whose symbols are global."""
    try:
        everything = ctypes.PyDLL(None)
    except (OSError, TypeError):  # the loader does not support global symbols
        return None
    return _declared(everything) if hasattr(everything, "gpumem_api_version") else None


_library: Any = _find()
_version = 0 if _library is None else int(_library.gpumem_api_version())
_has_scopes, _has_modules = _version >= _SCOPES, _version >= _MODULES


def api_version() -> Optional[int]:
    """Version of the C API in this process; None if libgpumem.so was not preloaded."""
    return None if _library is None else int(_library.gpumem_api_version())


def recording() -> bool:
    """Whether this process is being recorded. Recording begins with the first CUDA call."""
    return _library is not None and bool(_library.gpumem_recording() == 1)


def report_path() -> Optional[Path]:
    """Path of this process's capture; None if the process is not recorded."""
    if _library is None:
        return None
    size = int(_library.gpumem_report_path(None, 0))
    if size == 0:
        return None
    buffer = ctypes.create_string_buffer(size + 1)
    _library.gpumem_report_path(buffer, size + 1)
    return Path(os.fsdecode(buffer.value))


def library_path() -> Optional[Path]:
    """The file of the preloaded library; None without one, or if the loader does not report it."""
    if _library is None:
        return None
    info = _LoaderInfo()
    try:
        address = ctypes.cast(_library.gpumem_api_version, ctypes.c_void_p)
        found = ctypes.CDLL(None).dladdr(address, ctypes.byref(info))
    except (AttributeError, OSError):
        return None
    return Path(os.fsdecode(info.file)) if found and info.file else None


def step() -> bool:
    """Marks the end of a training step. From the first call on, steps are those that the program marks; before it,
    they are taken from PyTorch's optimizers. Returns whether the step was recorded."""
    return hasattr(_library, "gpumem_step") and bool(_library.gpumem_step() == 0)


def read_card() -> bool:
    """Reads the memory of every card that the process has used, on this thread. Memory that contexts and code took
    since the last reading is then recorded. The recorder also takes readings itself, a few milliseconds after they
    are needed. A reading can take milliseconds, without the GIL. Returns whether no memory changed during it."""
    if not hasattr(_library, "gpumem_read_card"):
        return False
    return int(ctypes.CDLL(None).gpumem_read_card(-1)) == 0


def mark(name: str) -> bool:
    """Records a mark in the capture. Returns whether it was recorded."""
    return _has_scopes and bool(_library.gpumem_mark(_text(name)) == 0)


def coords(text: str) -> Optional[bool]:
    """Reports this rank's coordinates: `dp=1,tp=0`. Returns whether they were or will be recorded; None if the
    text is invalid."""
    if not hasattr(_library, "gpumem_coords"):
        return False
    answer = _library.gpumem_coords(_text(text))
    return None if answer == 2 else bool(answer == 0)


def holders(device: int) -> "str | int":
    """The Python objects that keep the largest blocks of a device, as the text that capture/SPEC.md describes. A number
    if there was no search: 0 (nothing is recorded) or negative, as in gpumem.h."""
    if not hasattr(_library, "gpumem_holders"):
        return 0
    # Without the GIL, which the search takes: before Python 3.12 a subinterpreter's thread would wait for itself.
    search = ctypes.CDLL(None).gpumem_holders
    search.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t]
    search.restype = ctypes.c_ssize_t
    size = 1 << 16
    while True:
        buffer = ctypes.create_string_buffer(size)
        answer = int(search(device, buffer, size))
        if answer < size:
            return buffer.value.decode("utf-8", "replace") if answer > 0 else answer
        size = answer + 1


def name_module(address: int, name: str) -> bool:
    """Names a PyTorch module, a live object. Returns whether the name was recorded."""
    return _has_modules and bool(_library.gpumem_name_module(address, _text(name)) == 0)


def module_count() -> int:
    """The number of PyTorch modules in the recorded stacks."""
    return int(_library.gpumem_module_count()) if _has_modules else 0


def module_roots() -> "list[int]":
    """Addresses of modules that were called by no other module; the objects may be gone."""
    if not _has_modules:
        return []
    room = (ctypes.c_size_t * 64)()
    return list(room[: _library.gpumem_module_roots(room, len(room))])


def tell_tensors(addresses: "list[int]", role: int) -> int:
    """Reports the role of the storages at these addresses. Returns how many were new."""
    if not (_has_modules and addresses):
        return 0
    return int(_library.gpumem_tell_tensors((ctypes.c_uint64 * len(addresses))(*addresses), len(addresses), role))


def _text(name: str) -> bytes:
    return name.replace("\0", " ").encode("utf-8", "replace")


class Row(NamedTuple):
    """A scope's figures of one device and level."""

    start: int
    live: int
    peak: int
    allocations: int
    frees: int


def counters(device: int, level: int) -> "tuple[int, int, int, int]":
    """Live and peak bytes, allocations, frees; zeros if nothing is recorded."""
    row = CountersRow()
    if _library is not None and _library.gpumem_counters(device, level, ctypes.byref(row)) == 2:
        raise ValueError(f"no such device: {device}")
    return (row.live, row.peak, row.allocations, row.frees)


def scope_begin(name: str) -> int:
    """Begins a scope and returns its number; 0 if this process is not and will not be recorded."""
    return int(_library.gpumem_scope_begin(_text(name))) if _has_scopes else 0


def scope_read(scope: int, device: int, level: int) -> Optional[Row]:
    """None if the scope does not belong to this process."""
    row = ScopeRow()
    if not _has_scopes or _library.gpumem_scope_read(scope, device, level, ctypes.byref(row)) != 0:
        return None
    return Row(row.start, row.live, row.peak, row.allocations, row.frees)


def scope_reset(scope: int) -> bool:
    """Restarts the scope. Returns whether it belongs to this process."""
    return _has_scopes and bool(_library.gpumem_scope_reset(scope) == 0)


def scope_end(scope: int) -> bool:
    """Ends the scope. Returns whether it belongs to this process."""
    return _has_scopes and bool(_library.gpumem_scope_end(scope) == 0)


def scope_forget(scope: int) -> None:
    """Frees the scope's slot."""
    if _has_scopes:
        _library.gpumem_scope_forget(scope)
