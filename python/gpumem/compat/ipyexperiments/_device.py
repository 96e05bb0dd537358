"""Figures of a card for experiments and the cell logger."""

from typing import Any, Optional, Tuple

from ..._inside import meter as _meter, pools as _pools
from ..._machine import nvml as _nvml

__all__ = ["DeviceMemory"]


class DeviceMemory:
    """Memory of the device `gpu_current_device_id`, in bytes, for all processes. A backend with its own cache
    overrides `gpu_clear_cache`."""

    gpu_current_device_id: Optional[int] = None

    def gpu_clear_cache(self) -> None:
        """Frees the unused memory of the frameworks' pools."""
        _pools.empty_caches()

    def gpu_ram(self) -> Tuple[int, int, int]:
        """Total, free and used bytes with empty caches, because caches do not count as consumption."""
        self.gpu_clear_cache()
        memory = _meter.card_memory(self.gpu_current_device_id)
        return memory.total, memory.free, memory.used

    def gpu_ram_avail(self) -> int:
        """Free bytes, with empty caches."""
        return self.gpu_ram()[1]

    def gpu_ram_used(self) -> int:
        """Used bytes, with empty caches."""
        return self.gpu_ram()[2]

    def gpu_ram_used_fast(self, gpu_handle: Any) -> int:
        """Used bytes of the device of an NVML handle (also of pynvml), without emptying the caches."""
        nvml = _nvml.library()
        return nvml.used(gpu_handle) if nvml is not None and gpu_handle is not None else 0
