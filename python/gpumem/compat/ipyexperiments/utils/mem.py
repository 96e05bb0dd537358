"""`ipyexperiments.utils.mem`: memory of a card in MB (2**20 bytes, rounded toward zero).

Cards are identified by CUDA's ordinal in this process (`torch_gpu_id`; by default the current one). The
module imports without a GPU and without PyTorch; figures are then 0."""

from typing import Any, Optional

from ...._inside import meter as _meter, pools as _pools
from ...._machine import devices as _devices
from ..._card import allocate_mbs, leave_free_mbs, preload
from ..._trace import b2mb
from ...fastai.utils.mem import GPUMemory, gpu_mem_get

__all__ = [
    "GPUMemory", "b2mb", "get_nvml_gpu_id", "gpu_mem_allocate_mbs", "gpu_mem_get_free_mbs", "gpu_mem_get_free_no_cache_mbs",
    "gpu_mem_get_mbs", "gpu_mem_get_total_mbs", "gpu_mem_get_used_mbs", "gpu_mem_get_used_no_cache_mbs",
    "gpu_mem_leave_free_mbs", "preload_pytorch", "use_gpu",
]

use_gpu = bool(_devices.visible())


def preload_pytorch(device_id: int = 0) -> None:
    """Initialises CUDA, so that later comparisons do not include its cost."""
    preload(device_id)


def get_nvml_gpu_id(torch_gpu_id: int) -> int:
    """NVML's (nvidia-smi's) number of a card, by its UUID, regardless of CUDA_VISIBLE_DEVICES."""
    index = _devices.nvml_index(torch_gpu_id)
    if index is None:
        raise ValueError(f"no such device: {torch_gpu_id}")
    return index


def gpu_mem_get_mbs(torch_gpu_id: Optional[int] = None) -> GPUMemory:
    """`GPUMemory(total, free, used)` of a card; zeros if there is no such card."""
    return gpu_mem_get(torch_gpu_id)


def gpu_mem_get_total_mbs(torch_gpu_id: Optional[int] = None) -> int:
    """Total memory of a card."""
    return b2mb(_meter.card_memory(torch_gpu_id).total)


def gpu_mem_get_free_mbs(torch_gpu_id: Optional[int] = None) -> int:
    """Free memory of a card, without emptying the frameworks' caches."""
    return b2mb(_meter.card_memory(torch_gpu_id).free)


def gpu_mem_get_used_mbs(torch_gpu_id: Optional[int] = None) -> int:
    """Used memory of a card, without emptying the frameworks' caches."""
    return b2mb(_meter.card_memory(torch_gpu_id).used)


def gpu_mem_get_free_no_cache_mbs(torch_gpu_id: Optional[int] = None) -> int:
    """Free memory of a card, after collecting garbage and emptying the caches."""
    _pools.empty_caches(collect=True)
    return gpu_mem_get_free_mbs(torch_gpu_id)


def gpu_mem_get_used_no_cache_mbs(torch_gpu_id: Optional[int] = None) -> int:
    """Used memory of a card, after collecting garbage and emptying the caches."""
    _pools.empty_caches(collect=True)
    return gpu_mem_get_used_mbs(torch_gpu_id)


def gpu_mem_allocate_mbs(n: int, fatal: bool = False) -> Optional[Any]:
    """Holds `n` MB, to within 2 MB, as long as the result lives: a tensor if PyTorch is in use, else memory
    of the driver. Returns None on failure, or raises the error if `fatal`."""
    return allocate_mbs(n, fatal)


def gpu_mem_leave_free_mbs(n: int) -> Any:
    """Holds all memory except `n` MB, as long as the result lives. AssertionError if less is free, or if an
    allocation fails."""
    return leave_free_mbs(n)
