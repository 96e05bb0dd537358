"""Figures of a card, and of this process's RAM, for experiments and the cell logger."""

from typing import Any, Optional, Tuple

from ..._inside import meter as _meter, pools as _pools, sampler as _sampler
from ..._machine import nvml as _nvml, ram as _ram

__all__ = ["DeviceMemory", "HostMark"]


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


class HostMark:
    """A point in the program from which the process's RAM is measured. The kernel reports the peak of the whole process;
    lower peaks are sampled."""

    def __init__(self) -> None:
        self._start, self._highest = _ram.used(), _ram.peak()
        self._gauge = _sampler.Gauge(_ram.used)
        self._frozen: Optional[_meter.Figures] = None

    def read(self) -> _meter.Figures:
        """Bytes at the mark, now, and the peak in between: exact if the peak is the process's highest so far."""
        if self._frozen is not None:
            return self._frozen
        live, highest = self._gauge.look(), _ram.peak()
        known = highest if highest > self._highest else 0
        return _meter.Figures(self._start, live, max(self._gauge.peak, known))

    def end(self) -> None:
        if self._frozen is None:
            self._frozen = self.read()
            self._gauge.close()

    def __del__(self) -> None:
        if hasattr(self, "_gauge"):
            self._gauge.close()
