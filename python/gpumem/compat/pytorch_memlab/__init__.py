"""`pytorch_memlab`: memory line by line, a model's tensors, and temporary release of memory.

Peaks are exact for each line, from the hooks: PyTorch's counters are never reset, and calls inside a line count in
it. From Python 3.12 on lines are observed with `sys.monitoring`, so debuggers and coverage keep `sys.settrace`;
before, an existing trace function is called, too."""

from .courtesy import Courtesy
from .line_profiler import LineProfiler, clear_global_line_profiler, profile, profile_every, set_target_gpu
from .line_profiler.extension import load_ipython_extension, unload_ipython_extension
from .mem_reporter import MemReporter

__all__ = [
    "Courtesy", "LineProfiler", "MemReporter", "clear_global_line_profiler", "load_ipython_extension", "profile",
    "profile_every", "set_target_gpu", "unload_ipython_extension",
]
