"""The decorators, and their shared profiler."""

import atexit
import functools
from typing import Any, Callable, Sequence

from .line_profiler import DEFAULT_COLUMNS, Gpus, LineProfiler

__all__ = ["clear_global_line_profiler", "global_line_profiler", "profile", "profile_every", "set_target_gpu"]

global_line_profiler = LineProfiler()


def clear_global_line_profiler() -> None:
    """Removes the figures, and the functions that were decorated before."""
    global_line_profiler.clear()


def set_target_gpu(gpu_id: Gpus) -> None:
    """Selects the card, or cards, for `profile` and `profile_every` from now on. It may be called within a profiled
    function: a line counts for the card that is selected when the line ends."""
    global_line_profiler.target_gpu = gpu_id


@functools.lru_cache(maxsize=None)
def _without_a_card() -> None:
    """Prints a message once if there is no card, not for each decorated function."""
    global_line_profiler.enable()


def _watch(func: Callable[..., Any]) -> None:
    global_line_profiler.add_function(func)
    if global_line_profiler.has_device():
        if not global_line_profiler.enabled:
            global_line_profiler.enable()
    else:
        _without_a_card()


def profile(func: Callable[..., Any], columns: Sequence[str] = DEFAULT_COLUMNS) -> Callable[..., Any]:
    """Profiles a function in every call, and prints its lines when the program ends."""
    _watch(func)
    atexit.register(global_line_profiler.print_stats, func, columns)
    return func


def profile_every(output_interval: int = 1, enable: bool = True,
                  columns: Sequence[str] = DEFAULT_COLUMNS) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Profiles a function, and prints its lines after every `output_interval`-th call that returns."""

    def decorate(func: Callable[..., Any]) -> Callable[..., Any]:
        if not enable:
            return func
        _watch(func)
        calls = [0]

        @functools.wraps(func)
        def counted(*args: Any, **kwargs: Any) -> Any:
            result = func(*args, **kwargs)
            calls[0] += 1
            if calls[0] % output_interval == 0:
                global_line_profiler.print_stats(func, columns)
            return result

        return counted

    return decorate
