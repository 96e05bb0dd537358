"""What the workloads ask of the simulator they run on: its books, and what PyTorch needs there."""

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


def prepare(torch):
    """The simulator has no cuDNN 9 (NVIDIA's own stops at the driver-validity check), so PyTorch 2
    uses its own convolutions. PyTorch 1.12 has the real cuDNN 7 beside it."""
    if int(torch.__version__.split(".")[0]) >= 2:
        torch.backends.cudnn.enabled = False
