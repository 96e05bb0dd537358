"""NVML through ctypes, without a package of NVIDIA's or other Python packages.

A missing card never raises: without a driver, `library()` is None, and a query that the driver does not support returns
None. Handles are NVML's own, found by UUID or PCI address, so they denote the right card for any CUDA numbering."""

import ctypes
from typing import List, NamedTuple, Optional, Tuple

Handle = ctypes.c_void_p

_INSUFFICIENT_SIZE = 7
_NOT_AVAILABLE = 2**64 - 1
# More than the longest text, a program's path.
_ROOM = 256


class Memory(NamedTuple):
    """Bytes of a card, for all processes, as `nvmlDeviceGetMemoryInfo` (version 1) counts them: `used` includes
    the driver's reserved memory, so `total` is `free` + `used`. nvidia-smi shows `used` minus `reserved`.
    `reserved` is None if the driver does not report it."""

    total: int
    free: int
    used: int
    reserved: Optional[int]


class Process(NamedTuple):
    """A process that uses a card, with the driver's process id: the host's id, also in a container. `used` is None
    if the driver does not report it."""

    pid: int
    used: Optional[int]


class _MemoryV1(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("total", "free", "used")]


class _MemoryV2(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32)] + [
        (name, ctypes.c_uint64) for name in ("total", "reserved", "free", "used")
    ]


class _ProcessV1(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint32), ("used", ctypes.c_uint64)]


class _ProcessV2(ctypes.Structure):
    _fields_ = [
        ("pid", ctypes.c_uint32), ("used", ctypes.c_uint64),
        ("gpu_instance", ctypes.c_uint32), ("compute_instance", ctypes.c_uint32),
    ]  # fmt: skip


class _Utilization(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint32), ("memory", ctypes.c_uint32)]


class _Pci(ctypes.Structure):
    _fields_ = [
        ("bus_id_legacy", ctypes.c_char * 16),
        ("domain", ctypes.c_uint32),
        ("bus", ctypes.c_uint32),
        ("device", ctypes.c_uint32),
        ("pci_device_id", ctypes.c_uint32),
        ("pci_subsystem_id", ctypes.c_uint32),
        ("bus_id", ctypes.c_char * 32),
    ]


class Nvml:
    """A loaded and initialised NVML. Every method returns None if NVML does not answer."""

    def __init__(self, functions: ctypes.CDLL) -> None:
        self._functions = functions

    def _call(self, name: str, *arguments: object) -> bool:
        function = getattr(self._functions, name, None)
        return function is not None and function(*arguments) == 0

    def count(self) -> int:
        """Number of cards on the machine, regardless of CUDA_VISIBLE_DEVICES."""
        number = ctypes.c_uint()
        return number.value if self._call("nvmlDeviceGetCount_v2", ctypes.byref(number)) else 0

    def _handle(self, name: str, *arguments: object) -> Optional[Handle]:
        handle = Handle()
        return handle if self._call(name, *arguments, ctypes.byref(handle)) else None

    def by_index(self, index: int) -> Optional[Handle]:
        """The card with this index, in the order of PCI addresses."""
        return self._handle("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index)) if index >= 0 else None

    def by_uuid(self, uuid: str) -> Optional[Handle]:
        """The card (`GPU-…`) or the MIG instance (`MIG-…`) with this UUID."""
        return self._handle("nvmlDeviceGetHandleByUUID", uuid.encode())

    def by_pci(self, address: str) -> Optional[Handle]:
        """The card at a PCI address, as `0000:3b:00.0`."""
        return self._handle("nvmlDeviceGetHandleByPciBusId_v2", address.encode())

    def mig_instances(self, card: Handle) -> List[Handle]:
        """The MIG instances of a card; an empty list if it is not split."""
        limit = ctypes.c_uint()
        if not self._call("nvmlDeviceGetMaxMigDeviceCount", card, ctypes.byref(limit)):
            return []
        found = (self._handle("nvmlDeviceGetMigDeviceHandleByIndex", card, ctypes.c_uint(index)) for index in range(limit.value))
        return [handle for handle in found if handle is not None]

    def _text(self, name: str, *arguments: object) -> Optional[str]:
        buffer = ctypes.create_string_buffer(_ROOM)
        if not self._call(name, *arguments, buffer, ctypes.c_uint(_ROOM)):
            return None
        return buffer.value.decode("utf-8", "replace")

    def uuid(self, device: Handle) -> Optional[str]:
        return self._text("nvmlDeviceGetUUID", device)

    def name(self, device: Handle) -> Optional[str]:
        return self._text("nvmlDeviceGetName", device)

    def serial(self, device: Handle) -> Optional[str]:
        return self._text("nvmlDeviceGetSerial", device)

    def driver_version(self) -> Optional[str]:
        return self._text("nvmlSystemGetDriverVersion")

    def pci(self, device: Handle) -> Optional[str]:
        """A card's PCI address, `00000000:3B:00.0`."""
        info = _Pci()
        if not self._call("nvmlDeviceGetPciInfo_v3", device, ctypes.byref(info)):
            return None
        return bytes(info.bus_id).decode("ascii", "replace")

    def memory(self, device: Handle) -> Optional[Memory]:
        """A card's memory at this moment."""
        first = _MemoryV1()
        if not self._call("nvmlDeviceGetMemoryInfo", device, ctypes.byref(first)):
            return None
        second = _MemoryV2(version=ctypes.sizeof(_MemoryV2) | 2 << 24)
        told = self._call("nvmlDeviceGetMemoryInfo_v2", device, ctypes.byref(second))
        return Memory(first.total, first.free, first.used, second.reserved if told else None)

    def used(self, device: Handle) -> int:
        """Bytes used on a card, in one call; 0 if NVML does not answer."""
        info = _MemoryV1()
        return info.used if self._call("nvmlDeviceGetMemoryInfo", device, ctypes.byref(info)) else 0

    def processes(self, device: Handle) -> Optional[List[Process]]:
        """Every process that uses a card, for computing or graphics; None if NVML lists neither."""
        compute, graphics = self._listed("Compute", device), self._listed("Graphics", device)
        if compute is None and graphics is None:
            return None
        # A process that does both is in both lists.
        return list({process.pid: process for process in (graphics or []) + (compute or [])}.values())

    def _listed(self, kind: str, device: Handle) -> Optional[List[Process]]:
        name = f"nvmlDeviceGet{kind}RunningProcesses"
        for function, form in ((f"{name}_v3", _ProcessV2), (f"{name}_v2", _ProcessV2), (name, _ProcessV1)):
            ask = getattr(self._functions, function, None)
            if ask is None:
                continue
            count, code = ctypes.c_uint(64), _INSUFFICIENT_SIZE
            while code == _INSUFFICIENT_SIZE:
                # Their number may grow between two calls.
                room = count.value + 8
                listed, count = (form * room)(), ctypes.c_uint(room)
                code = ask(device, ctypes.byref(count), listed)
            if code == 0:
                of_each = [(each.pid, each.used) for each in listed[: count.value]]
                return [Process(pid, None if used == _NOT_AVAILABLE else used) for pid, used in of_each]
        return None

    def process_name(self, pid: int) -> Optional[str]:
        """The program of a process, if the driver can read it."""
        return self._text("nvmlSystemGetProcessName", ctypes.c_uint(pid)) or None

    def utilization(self, device: Handle) -> Optional[int]:
        """Utilization of a card's processors, in percent."""
        rates = _Utilization()
        return rates.gpu if self._call("nvmlDeviceGetUtilizationRates", device, ctypes.byref(rates)) else None

    def temperature(self, device: Handle) -> Optional[int]:
        """Temperature of the processor in degrees Celsius."""
        return self._number("nvmlDeviceGetTemperature", device, ctypes.c_uint(0))

    def display_mode(self, device: Handle) -> Optional[int]:
        return self._number("nvmlDeviceGetDisplayMode", device)

    def display_active(self, device: Handle) -> Optional[int]:
        return self._number("nvmlDeviceGetDisplayActive", device)

    def compute_capability(self, device: Handle) -> Optional[Tuple[int, int]]:
        major, minor = ctypes.c_int(), ctypes.c_int()
        found = self._call(
            "nvmlDeviceGetCudaComputeCapability", device, ctypes.byref(major), ctypes.byref(minor)
        )
        return (major.value, minor.value) if found else None

    def _number(self, name: str, *arguments: object) -> Optional[int]:
        number = ctypes.c_uint()
        return number.value if self._call(name, *arguments, ctypes.byref(number)) else None


_library: Optional[Nvml] = None


def library() -> Optional[Nvml]:
    """NVML, initialised; None without a driver. A driver that is installed later is found then."""
    global _library
    if _library is None:
        try:
            functions = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return None
        if functions.nvmlInit_v2() != 0:
            return None
        _library = Nvml(functions)
    return _library
