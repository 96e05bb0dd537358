"""The simulator's books, for the workloads that run on it."""

import ctypes
import json


def _driver():
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None


def simulated():
    """Whether the CUDA driver of this process is the simulator."""
    return hasattr(_driver(), "gpumem_sim_books_json")


def books():
    """The simulator's books at this moment."""
    read = _driver().gpumem_sim_books_json
    read.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    size = read(None, 0) + 4096
    buffer = ctypes.create_string_buffer(size)
    if not 0 < read(buffer, size) < size:
        raise RuntimeError("the simulator's books changed size")
    return json.loads(buffer.value)
