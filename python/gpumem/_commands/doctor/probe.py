"""Runs in a separate process, because it may hang or crash with a broken driver. Prints the state of the driver and
NVML as JSON."""

import ctypes
import json
from typing import Any, Dict, List, Optional

from ..._machine import driver as _driver, nvml as _nvml


def driver() -> Dict[str, Any]:
    """libcuda: whether it loads, its version, and the result of cuInit, which creates no context."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return {"loads": False, "why": str(error)}
    said: Dict[str, Any] = {"loads": True, "file": _mapped("libcuda.so", "libsimcuda.so"), "init": library.cuInit(0)}
    number = ctypes.c_int()
    said["cuda"] = number.value if library.cuDriverGetVersion(ctypes.byref(number)) == 0 else None
    said["devices"] = devices() if said["init"] == 0 else []
    return said


def devices() -> List[Dict[str, Any]]:
    """The GPUs that a program started from here would use, in CUDA's order."""
    return [
        {"name": _driver.name(ordinal), "total": _driver.total_memory(ordinal), "uuid": _driver.uuid(ordinal)}
        for ordinal in range(_driver.count() or 0 if _driver.initialise() else 0)
    ]


def nvml() -> Dict[str, Any]:
    """NVML: whether it loads and initialises, and all cards of the machine."""
    try:
        functions = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as error:
        return {"loads": False, "why": str(error)}
    code = functions.nvmlInit_v2()
    if code != 0:
        return {"loads": True, "init": code}
    library = _nvml.Nvml(functions)
    return {"loads": True, "init": 0, "version": library.driver_version(), "cards": cards(library)}


def cards(library: _nvml.Nvml) -> List[Dict[str, Any]]:
    found = []
    for index in range(library.count()):
        handle = library.by_index(index)
        if handle is None:
            continue
        memory = library.memory(handle)
        processes = library.processes(handle)
        found.append(
            {
                "name": library.name(handle), "total": memory.total if memory else None, "used": memory.used if memory else None,
                "instances": len(library.mig_instances(handle)),
                "processes": None if processes is None else len(processes),
            }
        )  # fmt: skip
    return found


def _mapped(*names: str) -> Optional[str]:
    """The file of a loaded library."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        paths = {line.split(None, 5)[-1].strip() for line in file if "/" in line}
    return next((path for path in sorted(paths) if path.rsplit("/", 1)[-1].startswith(names)), None)


if __name__ == "__main__":
    print(json.dumps({"driver": driver(), "nvml": nvml()}))
