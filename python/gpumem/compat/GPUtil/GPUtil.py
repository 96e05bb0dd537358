"""The machine's cards, their load, and which of them are free.

Cards have NVML's numbers (nvidia-smi's), and all cards are listed regardless of CUDA_VISIBLE_DEVICES: scripts set
that variable from them. Memory is in MB of 2**20 bytes. `memoryUsed` is that of nvidia-smi, without the driver's
reserved memory."""

import math
import random
import time
from typing import Any, Dict, List, Optional, Sequence

from ..._machine import nvml as _nvml
from . import _table

__all__ = [
    "GPU", "__version__", "getAvailability", "getAvailable", "getFirstAvailable", "getGPUs", "safeFloatCast",
    "showUtilization",
]

__version__ = "1.4.0"

_MB = 2**20


class GPU:
    """One card. `load` and `memoryUtil` are fractions of 1; values that a card does not report are NaN."""

    def __init__(self, ID: int, uuid: str, load: float, memoryTotal: float, memoryUsed: float, memoryFree: float,
                 driver: str, gpu_name: str, serial: str, display_mode: str, display_active: str,
                 temp_gpu: float) -> None:
        self.id = ID
        self.uuid = uuid
        self.load = load
        self.memoryUtil = float(memoryUsed) / float(memoryTotal) if memoryTotal else math.nan
        self.memoryTotal = memoryTotal
        self.memoryUsed = memoryUsed
        self.memoryFree = memoryFree
        self.driver = driver
        self.name = gpu_name
        self.serial = serial
        self.display_mode = display_mode
        self.display_active = display_active
        self.temperature = temp_gpu

    def __repr__(self) -> str:
        return f"<GPU {self.id}: {self.name}, {self.memoryFree:.0f} of {self.memoryTotal:.0f} MB free>"


def getGPUs() -> List[GPU]:
    """Every card of the machine; an empty list without a driver."""
    nvml = _nvml.library()
    found = []
    for index in range(nvml.count() if nvml is not None else 0):
        card = nvml.by_index(index) if nvml is not None else None
        if nvml is not None and card is not None:
            found.append(_gpu(nvml, index, card))
    return found


def _gpu(nvml: _nvml.Nvml, index: int, card: Any) -> GPU:
    memory = nvml.memory(card) or _nvml.Memory(0, 0, 0, None)
    used = memory.used - (memory.reserved or 0)
    load, warmth = nvml.utilization(card), nvml.temperature(card)
    return GPU(
        index, nvml.uuid(card) or "", math.nan if load is None else load / 100,
        float(memory.total // _MB), float(used // _MB), float(memory.free // _MB),
        nvml.driver_version() or "", nvml.name(card) or "", nvml.serial(card) or "[N/A]",
        _switch(nvml.display_mode(card)), _switch(nvml.display_active(card)),
        math.nan if warmth is None else float(warmth),
    )


def _switch(state: Optional[int]) -> str:
    return "[N/A]" if state is None else ("Enabled" if state else "Disabled")


def getAvailability(GPUs: Sequence[GPU], maxLoad: float = 0.5, maxMemory: float = 0.5, memoryFree: float = 0,
                    includeNan: bool = False, excludeID: Sequence[int] = (),
                    excludeUUID: Sequence[str] = ()) -> List[int]:
    """1 for each card that is free enough, else 0."""

    def below(value: float, limit: float) -> bool:
        return value < limit or (includeNan and math.isnan(value))

    return [
        int(
            gpu.memoryFree >= memoryFree
            and below(gpu.load, maxLoad)
            and below(gpu.memoryUtil, maxMemory)
            and gpu.id not in excludeID
            and gpu.uuid not in excludeUUID
        )
        for gpu in GPUs
    ]


def getAvailable(order: str = "first", limit: int = 1, maxLoad: float = 0.5, maxMemory: float = 0.5,
                 memoryFree: float = 0, includeNan: bool = False, excludeID: Sequence[int] = (),
                 excludeUUID: Sequence[str] = ()) -> List[int]:
    """Ids of at most `limit` free cards, by `order`: first, last, random, load or memory (least first)."""
    gpus = getGPUs()
    free = getAvailability(gpus, maxLoad, maxMemory, memoryFree, includeNan, excludeID, excludeUUID)
    chosen = [gpu for gpu, yes in zip(gpus, free) if yes]
    if order == "last":
        chosen.reverse()
    elif order == "random":
        random.shuffle(chosen)
    elif order == "load":
        chosen.sort(key=lambda gpu: math.inf if math.isnan(gpu.load) else gpu.load)
    elif order == "memory":
        chosen.sort(key=lambda gpu: math.inf if math.isnan(gpu.memoryUtil) else gpu.memoryUtil)
    return [gpu.id for gpu in chosen[:limit]]


def getFirstAvailable(order: str = "first", maxLoad: float = 0.5, maxMemory: float = 0.5, attempts: int = 1,
                      interval: float = 900, verbose: bool = False, includeNan: bool = False,
                      excludeID: Sequence[int] = (), excludeUUID: Sequence[str] = ()) -> List[int]:
    """The id of one free card, in a list. Makes `attempts` attempts, `interval` seconds apart. Raises RuntimeError
    if none was free."""
    for attempt in range(attempts):
        if attempt:
            time.sleep(interval)
        if verbose:
            print(f"Attempting ({attempt + 1}/{attempts}) to locate available GPU.")
        available = getAvailable(order, 1, maxLoad, maxMemory, 0, includeNan, excludeID, excludeUUID)
        if available:
            if verbose:
                print(f"GPU {available} located!")
            return available
    raise RuntimeError(
        f"Could not find an available GPU after {attempts} attempts with {interval} seconds interval."
    )


def showUtilization(all: bool = False, attrList: Optional[Sequence[Sequence[Dict[str, Any]]]] = None,
                    useOldCode: bool = False) -> None:
    """Prints a table of the cards: id, load and memory; with `all` everything; or the columns of `attrList`.
    `useOldCode`: the table as GPUtil 1.2 printed it."""
    gpus = getGPUs()
    if useOldCode:
        lines = _table.older(gpus, all)
    else:
        short = _table.SHORT if attrList is None else attrList
        lines = _table.table(gpus, _table.EVERYTHING if all else short)
    print("\n".join(lines))


def safeFloatCast(strNumber: str) -> float:
    """The number in a text, or nan."""
    try:
        return float(strNumber)
    except ValueError:
        return math.nan
