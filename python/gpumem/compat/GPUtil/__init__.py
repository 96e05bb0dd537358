"""`GPUtil`: the machine's cards, and which of them are free. By NVML; no nvidia-smi is started."""

from .GPUtil import (
    GPU, __version__, getAvailability, getAvailable, getFirstAvailable, getGPUs, showUtilization,
)

__all__ = [
    "GPU", "__version__", "getAvailability", "getAvailable", "getFirstAvailable", "getGPUs", "showUtilization",
]
