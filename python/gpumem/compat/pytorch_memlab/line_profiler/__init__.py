"""`pytorch_memlab.line_profiler`: memory of each line of chosen functions."""

from .line_profiler import DEFAULT_COLUMNS, LineProfiler
from .profile import clear_global_line_profiler, profile, profile_every, set_target_gpu

__all__ = [
    "DEFAULT_COLUMNS", "LineProfiler", "clear_global_line_profiler", "profile", "profile_every", "set_target_gpu",
]
