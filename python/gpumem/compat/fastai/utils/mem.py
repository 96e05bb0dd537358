"""`fastai.utils.mem` of fastai 1.0, the later version. The earlier one is `gpumem.compat.fastai.utils.mem_older`.

Names, units (MB of 2**20 bytes, rounded toward zero) and output are the same. Figures are exact if libgpumem.so is
preloaded; the module also works without PyTorch."""

import functools
from collections import namedtuple
from typing import Any, Callable, List, Optional, Tuple

from ...._inside import meter as _meter, pools as _pools
from ...._machine import devices as _devices, nvml as _nvml
from ..._card import preload as _preload
from ..._trace import Trace, b2mb
from . import _star
from .ipython import get_ref_free_exc_info, gpu_mem_restore, gpu_mem_restore_ctx
from .pynvml_gate import load_pynvml_env

_OWN = [
    "GPUMemTrace", "GPUMemory", "b2mb", "get_ref_free_exc_info", "gpu_mem_get", "gpu_mem_get_all",
    "gpu_mem_get_free", "gpu_mem_get_free_no_cache", "gpu_mem_get_used", "gpu_mem_get_used_fast",
    "gpu_mem_get_used_no_cache", "gpu_mem_restore", "gpu_mem_restore_ctx", "gpu_mem_trace", "gpu_with_max_free_mem",
    "load_pynvml_env", "preload_pytorch", "reduce_mem_usage", "use_gpu",
]


def __getattr__(name: str) -> Any:
    """The names of a star import other than those here: torch, np, gc, re and so on, if they are installed."""
    return _OWN + _star.names() if name == "__all__" else _star.attribute(name)


GPUMemory = namedtuple("GPUMemory", ["total", "free", "used"])
GPUMemory.__doc__ = "Memory of a card in MB."

use_gpu = bool(_devices.visible())


def preload_pytorch() -> None:
    """Initialises CUDA, so that the next measurement does not include its cost."""
    _preload()


def _of(memory: _nvml.Memory) -> GPUMemory:
    return GPUMemory(*map(b2mb, (memory.total, memory.free, memory.used)))


def gpu_mem_get(id: Optional[int] = None) -> GPUMemory:
    """Total, free and used MB of a card; of the current one if `id` is None. Zeros if there is no such card."""
    return _of(_meter.card_memory(id))


def gpu_mem_get_all() -> List[GPUMemory]:
    """Total, free and used MB of every card."""
    return [gpu_mem_get(device.ordinal) for device in _devices.visible()]


def gpu_mem_get_free() -> int:
    """Free MB of the current card, without emptying the frameworks' caches."""
    return int(gpu_mem_get().free)


def gpu_mem_get_free_no_cache() -> int:
    """Free MB of the current card, after emptying the caches."""
    _pools.empty_caches()
    return gpu_mem_get_free()


def gpu_mem_get_used() -> int:
    """Used MB of the current card, without emptying the frameworks' caches."""
    return int(gpu_mem_get().used)


def gpu_mem_get_used_fast(gpu_handle: Any) -> int:
    """Used MB of the card of an NVML handle (also of pynvml), in one call."""
    nvml = _nvml.library()
    return b2mb(nvml.used(gpu_handle)) if nvml is not None and gpu_handle is not None else 0


def gpu_mem_get_used_no_cache() -> int:
    """Used MB of the current card, after emptying the caches."""
    _pools.empty_caches()
    return gpu_mem_get_used()


def gpu_with_max_free_mem() -> Tuple[Optional[int], int]:
    """The first card with the most free memory, and its free MB; `(None, 0)` without a card."""
    free = [memory.free for memory in gpu_mem_get_all()]
    if not free:
        return None, 0
    most = max(free)
    return free.index(most), most


class _Silent:
    """A flag that can be set in two ways: `trace.silent = True` and `trace.silent(silent=True)`."""

    def __init__(self, owner: "GPUMemTrace") -> None:
        self._owner = owner

    def __call__(self, silent: bool = True) -> None:
        self._owner.is_silent = bool(silent)

    def __bool__(self) -> bool:
        return self._owner.is_silent

    def __eq__(self, other: object) -> bool:
        return bool(self) == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(bool(self))


class GPUMemTrace(Trace):
    """Used and peaked MB of the current card since the start, as output and as numbers.

    `silent`: reports print nothing; `ctx`: the text in brackets in every report; `on_exit_report`: prints a report
    at the end of `with`."""

    def __init__(self, silent: bool = False, ctx: Optional[str] = None, on_exit_report: bool = True) -> None:
        self.is_silent = silent
        self.ctx = ctx
        self.on_exit_report = on_exit_report
        super().__init__()

    @property
    def silent(self) -> Any:
        return _Silent(self)

    @silent.setter
    def silent(self, silent: bool) -> None:
        self.is_silent = bool(silent)

    def __repr__(self) -> str:
        used, peaked = self.data()
        return f"△Used Peaked MB: {used:6,.0f} {peaked:6,.0f}"

    def _note(self, subctx: Optional[str]) -> str:
        said = ": ".join(part for part in (self.ctx, subctx) if part)
        return f" ({said})" if said else ""

    def report(self, subctx: Optional[str] = None, note: Optional[str] = None) -> None:
        """Prints used and peaked, with `ctx` and `subctx` in brackets (`note` is its earlier name)."""
        if not self.is_silent:
            print(f"{self!r}{self._note(subctx or note)}")

    def report_n_reset(self, subctx: Optional[str] = None, note: Optional[str] = None) -> None:
        """Prints a report, then counts from zero."""
        self.report(subctx, note)
        self.reset()

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self.on_exit_report:
            self.report("exit")


def gpu_mem_trace(func: Callable[..., Any]) -> Callable[..., Any]:
    """Reports used and peaked memory of each call of a function, under the function's name."""

    @functools.wraps(func)
    def traced(*args: Any, **kwargs: Any) -> Any:
        with GPUMemTrace(ctx=func.__qualname__):
            return func(*args, **kwargs)

    return traced


def reduce_mem_usage(df: Any) -> Any:
    """Converts a pandas DataFrame's columns to the smallest types for their values: integers exactly, floats to
    half precision only if no value changes, else to single precision if in range, text to categories."""
    from ._dataframe import reduced

    return reduced(df)
