"""`ipyexperiments.utils.ipython`: exceptions that hold no memory.

IPython keeps the last exception with its traceback, and so the local variables of all frames: their memory is held
until the next exception. The frames are cleared here before IPython gets them; `%debug` then shows no variables."""

import functools
import os
import traceback
from types import TracebackType
from typing import Any, Callable, Optional, Type

from ... import _frames
from .. import _notebook

__all__ = ["IS_IN_IPYTHON", "ipython_tb_clear_frames", "ipython_tb_clear_frames_ctx", "is_in_ipython"]


def is_in_ipython() -> bool:
    """Whether the program runs in IPython: a console, a notebook, or the start of a kernel."""
    return _notebook.shell() is not None or "JPY_PARENT_PID" in os.environ


IS_IN_IPYTHON = is_in_ipython()


def ipython_tb_clear_frames(func: Callable[..., Any]) -> Callable[..., Any]:
    """Under IPython, an exception that leaves the function holds none of its variables."""

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return func(*args, **kwargs)
        except BaseException as error:
            if IS_IN_IPYTHON or is_in_ipython():
                # This frame is still running, so its references must be deleted explicitly.
                del args, kwargs
                _frames.clear(error)
            raise

    return wrapper


class ipython_tb_clear_frames_ctx:
    """`with ipython_tb_clear_frames_ctx():`: an exception that leaves the block holds no variables."""

    def __enter__(self) -> "ipython_tb_clear_frames_ctx":
        return self

    def __exit__(
        self,
        exc_type: Optional[Type[BaseException]],
        exc_val: Optional[BaseException],
        exc_tb: Optional[TracebackType],
    ) -> None:
        traceback.clear_frames(exc_tb)
        _frames.clear(exc_val)
