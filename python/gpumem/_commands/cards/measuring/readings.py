"""The used memory of the card at a moment, as the measured process sees it."""

from __future__ import annotations

import os
from typing import Dict, List, Optional

from ...._machine import devices, driver, nvml as _nvml


class Readings:
    """Readings of device 0 in order, each with a name. `card` is NVML's figure for all processes, `process`
    NVML's for this process, `driver` the bytes that CUDA does not report as free (only with a context)."""

    def __init__(self) -> None:
        nvml = _nvml.library()
        device = devices.find(0)
        if nvml is None or device is None:
            raise RuntimeError("NVML does not find the card")
        self._nvml, self._handle = nvml, device.handle
        self._others = {process.pid for process in nvml.processes(device.handle) or []}
        self.taken: List[Dict[str, object]] = []

    def take(self, name: str, **more: int) -> None:
        """Takes a reading, with additional figures of the program."""
        memory = self._nvml.memory(self._handle)
        asked = driver.free_and_total(0)
        self.taken.append({
            "at": name,
            "card": memory.used if memory else None,
            "process": self._own(),
            "driver": asked[1] - asked[0] if asked else None,
            **more,
        })  # fmt: skip

    def _own(self) -> Optional[int]:
        """This process's bytes. In a container NVML lists it with another id: then it is the new one."""
        listed = self._nvml.processes(self._handle)
        if listed is None:
            return None
        own = [process for process in listed if process.pid == os.getpid()]
        if not own:
            own = [process for process in listed if process.pid not in self._others]
        if not own:
            return 0 if not driver.free_and_total(0) else None
        return own[0].used if len(own) == 1 else None
