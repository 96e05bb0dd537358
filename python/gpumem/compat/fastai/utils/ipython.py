"""`fastai.utils.ipython`: exceptions that hold no memory.

IPython keeps the last exception's traceback with all local variables of all frames, so memory is held until the next
exception. Frames are cleared here before IPython gets them; the decorator does so only in IPython.
`FASTAI_TB_CLEAR_FRAMES`: with "0" the decorator never clears, with "1" always; else only for errors after which the
memory is needed (out of memory, an assertion on the device)."""

import functools
import gc
import os
import sys
import traceback
import warnings
from types import TracebackType
from typing import Any, Callable, Optional, Tuple, Type

from ... import _frames

__all__ = [
    "IS_IN_COLAB", "IS_IN_IPYTHON", "functools", "gc", "get_ref_free_exc_info", "gpu_mem_restore",
    "gpu_mem_restore_ctx", "is_in_colab", "is_in_ipython", "is_in_notebook", "os", "traceback",
]

_ASSERTION = "device-side assert triggered"
_CLEARED = ("CUDA out of memory", _ASSERTION)
_UNRECOVERABLE = (
    "When 'device-side assert triggered' error happens, it's not possible to recover and you must restart the kernel "
    "to continue. Use os.environ['CUDA_LAUNCH_BLOCKING']=\"1\" before restarting to debug"
)


def _shell() -> Optional[Any]:
    """IPython's shell, if the program runs in one."""
    ipython = sys.modules.get("IPython")
    get = getattr(ipython, "get_ipython", None)
    return get() if get is not None else None


def is_in_ipython() -> bool:
    """Whether the program runs in IPython (console, notebook or Colab)."""
    return _shell() is not None


def is_in_notebook() -> bool:
    """Whether the program runs in a notebook's kernel."""
    return type(_shell()).__name__ == "ZMQInteractiveShell" or is_in_colab()


def is_in_colab() -> bool:
    """Whether the program runs on Google Colab."""
    return is_in_ipython() and "google.colab" in sys.modules


# The values at the import. A program may set the first one, and gpu_mem_restore then treats the program as IPython.
IS_IN_IPYTHON = is_in_ipython()
IS_IN_COLAB = is_in_colab()


def get_ref_free_exc_info() -> Tuple[
    Optional[Type[BaseException]], Optional[BaseException], Optional[TracebackType]
]:
    """`sys.exc_info()` with all frames cleared of their locals."""
    kind, error, trace = sys.exc_info()
    traceback.clear_frames(trace)
    _frames.clear(error)
    return kind, error, trace


def _wanted(error: BaseException) -> bool:
    choice = os.environ.get("FASTAI_TB_CLEAR_FRAMES")
    if choice in ("0", "1"):
        return choice == "1"
    return any(text in str(error) for text in _CLEARED)


def gpu_mem_restore(func: Callable[..., Any]) -> Callable[..., Any]:
    """Under IPython, an exception of the kinds above that leaves the function holds none of its variables."""

    @functools.wraps(func)
    def restored(*args: Any, **kwargs: Any) -> Any:
        try:
            return func(*args, **kwargs)
        except Exception as error:
            if not (IS_IN_IPYTHON or is_in_ipython()) or not _wanted(error):
                raise
            # This frame is still running, so its references must be deleted explicitly.
            del args, kwargs
            get_ref_free_exc_info()
            gc.collect()
            if _ASSERTION in str(error):
                warnings.warn(_UNRECOVERABLE, stacklevel=2)
            raise

    return restored


class gpu_mem_restore_ctx:
    """`with gpu_mem_restore_ctx():`: any exception that leaves the block holds no variables, in IPython or not."""

    def __enter__(self) -> "gpu_mem_restore_ctx":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if error is not None:
            traceback.clear_frames(trace)
            _frames.clear(error)
            gc.collect()
