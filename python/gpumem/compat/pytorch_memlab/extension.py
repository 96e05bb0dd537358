"""`pytorch_memlab.extension`: the module of `%mlrun` before 0.2.4."""

from .line_profiler.extension import load_ipython_extension, unload_ipython_extension

__all__ = ["load_ipython_extension", "unload_ipython_extension"]
