"""`GPUtil`: the machine's cards, and which of them are free. It uses NVML and does not start nvidia-smi."""

from .GPUtil import (
    GPU, __version__, getAvailability, getAvailable, getFirstAvailable, getGPUs, showUtilization,
)

__all__ = [
    "GPU", "__version__", "getAvailability", "getAvailable", "getFirstAvailable", "getGPUs", "showUtilization",
]
