"""Maps CUDA's ordinals in this process to NVML's handles of the same cards.

CUDA numbers the devices that CUDA_VISIBLE_DEVICES leaves, in the order of CUDA_DEVICE_ORDER. NVML numbers all
cards by PCI address. The two are matched by UUID, never by number. If CUDA is initialised in this process, the
driver is queried; before that, the variables are parsed by CUDA's rules."""

import ctypes
import operator
import os
import sys
from typing import Dict, List, NamedTuple, Optional, Tuple

from . import driver, nvml as _nvml

_Instances = Dict[Optional[str], List[_nvml.Handle]]
# The UUID and the handle of a card.
_Named = Tuple[Optional[str], Optional[_nvml.Handle]]


class Device(NamedTuple):
    """A card, or a MIG instance, that this process can use."""

    ordinal: int
    uuid: str
    handle: ctypes.c_void_p


def visible() -> List[Device]:
    """The devices of this process in CUDA's order; empty without a driver or a card."""
    nvml = _nvml.library()
    if nvml is None:
        return []
    number = driver.count()
    if number is None and _must_ask_driver(nvml) and driver.initialise():
        number = driver.count()
    handles = _from_environment(nvml) if number is None else _from_driver(nvml, number)
    return [Device(place, nvml.uuid(handle) or "", handle) for place, handle in enumerate(handles)]


def find(ordinal: Optional[int] = None) -> Optional[Device]:
    """A device by its ordinal (None: the current one); None if this process has no such device."""
    devices = visible()
    if ordinal is None:
        ordinal = current()
    place = operator.index(ordinal)
    return devices[place] if 0 <= place < len(devices) else None


def nvml_index(ordinal: Optional[int] = None) -> Optional[int]:
    """NVML's index (nvidia-smi's) of a device; for a MIG instance, of the whole card."""
    nvml, device = _nvml.library(), find(ordinal)
    if nvml is None or device is None:
        return None
    for index in range(nvml.count()):
        card = nvml.by_index(index)
        if card is None:
            continue
        if device.uuid in [nvml.uuid(each) for each in [card] + nvml.mig_instances(card)]:
            return index
    return None


def current() -> int:
    """Ordinal of this thread's current device; 0 before a device is selected."""
    return chosen() or 0


def chosen() -> Optional[int]:
    """Ordinal of this thread's current device, from the framework's runtime, the driver's current context, or
    the runtime's selection. None before CUDA is used."""
    for asked in (_current_of_torch, _current_of_cupy, driver.current_device, _current_of_runtime):
        ordinal = asked()
        if ordinal is not None:
            return ordinal
    return None


def _current_of_torch() -> Optional[int]:
    """PyTorch's current device, if it has initialised CUDA. It may have a separate CUDA runtime that is older
    than 12, which stores a selection before a context exists."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not getattr(cuda, "is_initialized", bool)():
        return None
    return int(cuda.current_device())


def _current_of_cupy() -> Optional[int]:
    """CuPy's current device, if CUDA is initialised: its runtime is separate, too."""
    cupy = sys.modules.get("cupy")
    if cupy is None or driver.current_device() is None:
        return None
    try:
        return int(cupy.cuda.runtime.getDevice())
    except Exception:  # a CuPy that finds no runtime: the next source is used
        return None


def _current_of_runtime() -> Optional[int]:
    """The current device of a loaded libcudart. CUDA must be initialised, because the query would initialise it."""
    if not driver.ready():
        return None
    for version in ("13", "12", "11.0", "10.2", "10.1"):
        try:
            runtime = ctypes.CDLL(f"libcudart.so.{version}", mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        except OSError:
            continue
        device = ctypes.c_int()
        if runtime.cudaGetDevice(ctypes.byref(device)) == 0:
            return device.value
    return None


def _from_driver(nvml: _nvml.Nvml, number: int) -> List[_nvml.Handle]:
    handles = []
    for ordinal in range(number):
        uuid = driver.uuid(ordinal)
        handle = None
        if uuid is not None:
            handle = nvml.by_uuid("GPU-" + uuid) or nvml.by_uuid("MIG-" + uuid)
        if handle is None:
            address = driver.pci(ordinal)
            handle = nvml.by_pci(address) if address else None
        if handle is None:
            break
        handles.append(handle)
    return handles


def _cards(nvml: _nvml.Nvml) -> List[_nvml.Handle]:
    handles = [nvml.by_index(index) for index in range(nvml.count())]
    return [handle for handle in handles if handle is not None]


def _must_ask_driver(nvml: _nvml.Nvml) -> bool:
    """Whether indices can only be resolved by the driver: the fastest card comes first, and the cards differ."""
    if os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
        return False
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if listed is not None and not any(entry.strip().isdigit() for entry in listed.split(",")):
        return False
    kinds = set()
    for card in _cards(nvml):
        memory = nvml.memory(card)
        kinds.add((nvml.name(card), nvml.compute_capability(card), memory.total if memory else 0))
    return len(kinds) > 1


def _from_environment(nvml: _nvml.Nvml) -> List[_nvml.Handle]:
    """The devices that CUDA will show, by its rules: indices or prefixes of UUIDs. The first entry that
    matches no device, or one already listed, ends the list. A MIG instance is visible only alone."""
    cards = _cards(nvml)
    instances = {nvml.uuid(card): nvml.mig_instances(card) for card in cards}

    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        split = [own[0] for own in instances.values() if own]
        return split[:1] or cards
    chosen: List[_nvml.Handle] = []
    named = set()
    for entry in listed.split(","):
        card, handle = _named(nvml, cards, instances, entry.strip())
        if handle is None or card in named:
            break
        named.add(card)
        is_instance = nvml.uuid(handle) != card
        if is_instance and chosen:
            break
        chosen.append(handle)
        if is_instance:
            break
    return chosen


def _named(nvml: _nvml.Nvml, cards: List[_nvml.Handle], instances: _Instances, entry: str) -> _Named:
    """The UUID and the handle of an entry's card: a split card is visible as its first instance."""
    matches: List[_Named] = []
    for index, card in enumerate(cards):
        uuid = nvml.uuid(card)
        whole = instances[uuid][0] if instances[uuid] else card
        if entry.startswith("GPU-"):
            if uuid is not None and uuid.lower().startswith(entry.lower()):
                matches.append((uuid, whole))
        elif entry.startswith("MIG-"):
            for instance in instances[uuid]:
                own = nvml.uuid(instance)
                if own is not None and own.lower().startswith(entry.lower()):
                    matches.append((uuid, instance))
        elif entry.isdigit() and int(entry) == index:
            matches.append((uuid, whole))
    return matches[0] if len(matches) == 1 else (None, None)
