"""What experiments and the cell logger ask of a card."""

from typing import Any, Optional, Tuple

from ... import _meter, _nvml, _pools

__all__ = ["DeviceMemory"]


class DeviceMemory:
    """Memory of the device `gpu_current_device_id`, in bytes, for everyone on it. A backend that keeps a cache of its
    own overrides `gpu_clear_cache`."""

    gpu_current_device_id: Optional[int] = None

    def gpu_clear_cache(self) -> None:
        """Returns what the frameworks' pools hold unused to the card."""
        _pools.empty_caches()

    def gpu_ram(self) -> Tuple[int, int, int]:
        """Total, free and used, with the caches empty: a cache is not consumption."""
        self.gpu_clear_cache()
        memory = _meter.card_memory(self.gpu_current_device_id)
        return memory.total, memory.free, memory.used

    def gpu_ram_avail(self) -> int:
        """Free, with the caches empty."""
        return self.gpu_ram()[1]

    def gpu_ram_used(self) -> int:
        """Used, with the caches empty."""
        return self.gpu_ram()[2]

    def gpu_ram_used_fast(self, gpu_handle: Any) -> int:
        """Used on the device of an NVML handle (pynvml's will do), the caches as they are."""
        nvml = _nvml.library()
        return nvml.used(gpu_handle) if nvml is not None and gpu_handle is not None else 0
