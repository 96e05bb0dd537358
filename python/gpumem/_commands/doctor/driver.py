"""The driver, NVML and the GPUs: the results of the probe, and advice."""

import json
import os
import re
import subprocess
import sys
from typing import Any, Dict, Iterator, List, Mapping

from ..._machine import installed
from ..._text import sizes
from . import surroundings
from .check import ERROR, OK, WARNING, Check, Machine

SECONDS = 60

# Results of cuInit with specific advice. The others are shown by number.
_INIT = {
    3: ("CUDA is not initialised", "Load the kernel module: nvidia-smi, or modprobe nvidia."),
    34: ("a stub library, not the driver", "Take the folder `stubs` of the CUDA toolkit out of LD_LIBRARY_PATH."),
    46: ("the GPU is in use by another program that has it alone", "Wait for it, or use another GPU (CUDA_VISIBLE_DEVICES)."),
    100: ("no GPU is visible", "Check CUDA_VISIBLE_DEVICES, and give the container its GPUs (docker run --gpus all)."),
    101: ("an ordinal that does not exist", "Check CUDA_VISIBLE_DEVICES."),
    802: ("the system is not ready", "Start the fabric manager: systemctl start nvidia-fabricmanager."),
    803: ("libcuda and the kernel module differ in version", "Restart the machine, or load the kernel module again."),
    804: ("forward compatibility is not supported on this GPU", "Take the folder `compat` out of LD_LIBRARY_PATH, or update the driver."),
}
# The same for nvmlInit.
_NVML = {
    4: ("no permission", "Give this user access to /dev/nvidiactl and /dev/nvidia*."),
    9: ("the driver is not loaded", "Load the kernel module: nvidia-smi, or modprobe nvidia."),
    18: ("libnvidia-ml and the kernel module differ in version", "Restart the machine, or load the kernel module again."),
}
_WITHOUT_NVML = "Tensors and the driver's allocations are recorded exactly. The card's own figures are missing."


def probe(env: Mapping[str, str]) -> Dict[str, Any]:
    """Queries the driver and NVML in a separate process."""
    code = "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); runpy.run_module('gpumem._commands.doctor.probe', run_name='__main__')"
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, installed.FOLDER], env=_unrecorded(env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, universal_newlines=True, errors="replace", timeout=SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"failed": f"the driver did not answer within {SECONDS} s"}
    try:
        said: Dict[str, Any] = json.loads(done.stdout)
        return said
    except ValueError:
        return {"failed": f"asking the driver ended with {done.returncode}: {done.stderr.strip()[-200:]}"}


def _unrecorded(env: Mapping[str, str]) -> Dict[str, str]:
    """The environment without the recorder, which would write a capture of the probe."""
    names = env.get("LD_PRELOAD", "").replace(":", " ").split()
    return {**env, "LD_PRELOAD": ":".join(name for name in names if os.path.basename(name) != installed.LIBRARY)}


def checks(said: Dict[str, Any], machine: Machine) -> Iterator[Check]:
    if "failed" in said:
        yield Check("driver", ERROR, said["failed"], "Run nvidia-smi. If it hangs too, restart the machine.")
        return
    driver, nvml = said["driver"], said["nvml"]
    yield of_driver(driver, nvml, machine)
    yield of_nvml(nvml, driver)
    if driver["loads"] and driver["init"] == 0:
        yield from gpus(driver["devices"], nvml)
    if nvml.get("init") == 0:
        yield mig(nvml)


def of_driver(driver: Dict[str, Any], nvml: Dict[str, Any], machine: Machine) -> Check:
    # "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  590.48.01  Release Build …"
    kernel = re.search(r"Kernel Module.*?\s(\d+\.\d+(?:\.\d+)?)\s", machine.read("/proc/driver/nvidia/version"))
    if not driver["loads"]:
        return Check("driver", ERROR, _not_loaded(driver["why"]), _where_from(machine, bool(kernel)))
    file = driver["file"] or "libcuda.so.1"
    if os.path.basename(file).startswith("libsim"):
        cuda = _version(driver["cuda"])
        status = OK if driver["init"] == 0 else ERROR
        return Check("driver", status, f"the simulated GPU, CUDA {cuda}", "" if status == OK else "Install the wheel again.")
    version = nvml.get("version") or (kernel[1] if kernel else None)
    found = ", ".join(filter(None, [version, f"CUDA {_version(driver['cuda'])}" if driver["cuda"] else "", file]))
    if driver["init"] != 0:
        why, advice = _INIT.get(driver["init"], ("", "Run nvidia-smi, and see its message."))
        return Check("driver", ERROR, f"{found}: cuInit returned {driver['init']}{f', {why}' if why else ''}", advice)
    return Check("driver", OK, found)


def _not_loaded(why: str) -> str:
    return "libcuda.so.1 was not found" if "cannot open" in why else f"libcuda.so.1 cannot be loaded: {why}"


def _where_from(machine: Machine, has_module: bool) -> str:
    without = "Without a GPU: gpumem run --simulate, and gpumem doctor --simulate."
    if surroundings.is_wsl(machine):
        return f"Update NVIDIA's driver for Windows; /usr/lib/wsl/lib has its libcuda. {without}"
    if surroundings.kind_of_container(machine):
        return f"Give the container its GPUs: docker run --gpus all, or nvidia.com/gpu in Kubernetes. {without}"
    if has_module:
        return "The kernel module is loaded: install the driver's user-space libraries of the same version."
    return f"Install NVIDIA's driver. {without}"


def of_nvml(nvml: Dict[str, Any], driver: Dict[str, Any]) -> Check:
    if not nvml["loads"]:
        return Check(
            "NVML", WARNING, "libnvidia-ml.so.1 was not found",
            _WITHOUT_NVML if driver["loads"] else "It comes with the driver.",
        )  # fmt: skip
    if nvml["init"] != 0:
        why, advice = _NVML.get(nvml["init"], ("", "Run nvidia-smi, and see its message."))
        return Check("NVML", WARNING, f"nvmlInit returned {nvml['init']}{f', {why}' if why else ''}", f"{advice} {_WITHOUT_NVML}")
    if [card for card in nvml["cards"] if card["total"] is None]:
        return Check("NVML", WARNING, "it does not give a card's memory", _WITHOUT_NVML)
    number = len(nvml["cards"])
    return Check("NVML", OK, f"{number} card{'' if number == 1 else 's'}{_listed(nvml['cards'])}")


def _listed(cards: List[Dict[str, Any]]) -> str:
    if any(card["processes"] is None for card in cards):
        return "; processes are not listed, so contexts and code are estimates (docs/ledgers.md)"
    return ""


def gpus(devices: List[Dict[str, Any]], nvml: Dict[str, Any]) -> Iterator[Check]:
    """The GPUs that are visible to a program started from here."""
    for ordinal, device in enumerate(devices):
        total = sizes.text(device["total"]) if device["total"] else "unknown memory"
        yield Check(f"GPU {ordinal}", OK, f"{device['name']}, {total}{_used(device, devices, nvml)}")
    if not devices:
        yield Check("GPUs", ERROR, "CUDA shows none", "Check CUDA_VISIBLE_DEVICES.")
    hidden = len(nvml.get("cards") or ()) - len(devices)
    if devices and hidden > 0:
        yield Check("GPUs", OK, f"{hidden} more of this machine {'is' if hidden == 1 else 'are'} hidden (CUDA_VISIBLE_DEVICES, MIG)")


def _used(device: Dict[str, Any], devices: List[Dict[str, Any]], nvml: Dict[str, Any]) -> str:
    """The used memory, if it is certain which card a device is."""
    cards = nvml.get("cards") or []
    if len(cards) != 1 or len(devices) != 1 or cards[0]["instances"] or cards[0]["used"] is None:
        return ""
    return f", {sizes.text(cards[0]['used'])} in use"


def mig(nvml: Dict[str, Any]) -> Check:
    split = [(index, card["instances"]) for index, card in enumerate(nvml.get("cards") or ()) if card["instances"]]
    if not split:
        return Check("MIG", OK, "no card is split")
    listed = ", ".join(f"card {index} has {number} instance{'' if number == 1 else 's'}" for index, number in split)
    return Check(
        "MIG", WARNING, f"{listed}; NVML does not list processes of an instance",
        "Tensors and the driver's allocations are exact; contexts and code are estimates (docs/ledgers.md). CUDA shows a "
        "program one instance: name it in CUDA_VISIBLE_DEVICES.",
    )  # fmt: skip


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}" if number else "unknown"
