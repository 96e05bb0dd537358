"""The CUDA driver through ctypes: current device, names of devices, and plain allocations.

Queries never initialise CUDA: if the driver is not loaded and initialised, they return None. `initialise` and
`Allocation` do initialise it."""

import ctypes
import os
from typing import Any, Dict, Optional, Tuple

_OUT_OF_MEMORY = 2
_NOT_FOUND = 500


class CudaError(RuntimeError):
    """A call of the driver that failed."""

    def __init__(self, function: str, code: int) -> None:
        text = "CUDA out of memory" if code == _OUT_OF_MEMORY else "CUDA error"
        super().__init__(f"{text}: {function} returned {code}")
        self.code = code


_library: Optional[ctypes.CDLL] = None


def _loaded() -> Optional[ctypes.CDLL]:
    """libcuda, if it is already loaded in this process."""
    global _library
    if _library is None:
        try:
            _library = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        except OSError:
            return None
    return _library


def is_installed() -> bool:
    """Whether a program started from here would find the driver."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def ready() -> bool:
    """Whether this process has initialised CUDA (cuInit)."""
    return count() is not None


def initialise() -> bool:
    """Initialises CUDA, without a context. Returns whether there is a device."""
    global _library
    if not ready():
        try:
            _library = ctypes.CDLL("libcuda.so.1")
        except OSError:
            return False
        if _library.cuInit(0) != 0:
            return False
    return bool(count())


def call(function: str, *arguments: object) -> int:
    """Calls a function of the driver and returns its result code; 500 (not found) if the driver does not have it."""
    library = _loaded()
    found = getattr(library, function, None)
    return int(found(*arguments)) if found is not None else _NOT_FOUND


def must(function: str, *arguments: object) -> None:
    """The same; raises CudaError on failure."""
    code = call(function, *arguments)
    if code != 0:
        raise CudaError(function, code)


def _read(kind: Any, function: str, *arguments: object) -> Optional[int]:
    """The number that a function of the driver writes to its first argument; None if it fails."""
    number = kind()
    return int(number.value) if call(function, ctypes.byref(number), *arguments) == 0 else None


def version() -> Optional[int]:
    """The driver's CUDA version: 13020 is 13.2. None before CUDA is initialised."""
    return _read(ctypes.c_int, "cuDriverGetVersion")


def name(ordinal: int) -> Optional[str]:
    """CUDA's name of a device; None before CUDA is initialised."""
    buffer = ctypes.create_string_buffer(256)
    if call("cuDeviceGetName", buffer, ctypes.c_int(256), ctypes.c_int(ordinal)) != 0:
        return None
    return buffer.value.decode("utf-8", "replace")


def attribute(number: int, ordinal: int) -> Optional[int]:
    """An attribute of a device by its CUdevice_attribute; None before CUDA is initialised."""
    return _read(ctypes.c_int, "cuDeviceGetAttribute", ctypes.c_int(number), ctypes.c_int(ordinal))


def total_memory(ordinal: int) -> Optional[int]:
    """CUDA's total memory of a device, which needs no context; None before CUDA is initialised."""
    return _read(ctypes.c_size_t, "cuDeviceTotalMem_v2", ctypes.c_int(ordinal))


def count() -> Optional[int]:
    """Number of devices that CUDA shows here; None before CUDA is initialised."""
    return _read(ctypes.c_int, "cuDeviceGetCount")


def current_device() -> Optional[int]:
    """Ordinal of the device whose context is current on this thread; None without a context."""
    return _read(ctypes.c_int, "cuCtxGetDevice")


def uuid(ordinal: int) -> Optional[str]:
    """UUID of a device without `GPU-` or `MIG-`; for a MIG instance its own. None before CUDA is initialised."""
    data, device = (ctypes.c_ubyte * 16)(), ctypes.c_int()
    if call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(ordinal)) != 0:
        return None
    if call("cuDeviceGetUuid_v2", data, device) != 0 and call("cuDeviceGetUuid", data, device) != 0:
        return None
    text = bytes(data).hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def pci(ordinal: int) -> Optional[str]:
    """PCI address of a device; None before CUDA is initialised."""
    buffer = ctypes.create_string_buffer(64)
    if call("cuDeviceGetPCIBusId", buffer, ctypes.c_int(64), ctypes.c_int(ordinal)) != 0:
        return None
    return buffer.value.decode("ascii", "replace")


class _Primary:
    """A device's primary context, temporarily current on this thread."""

    def __init__(self, library: ctypes.CDLL, ordinal: int) -> None:
        self._library, self._device = library, ctypes.c_int(ordinal)

    def __enter__(self) -> None:
        context = ctypes.c_void_p()
        code = self._library.cuDevicePrimaryCtxRetain(ctypes.byref(context), self._device)
        if code != 0:
            raise CudaError("cuDevicePrimaryCtxRetain", code)
        code = self._library.cuCtxPushCurrent_v2(context)
        if code != 0:
            self._library.cuDevicePrimaryCtxRelease_v2(self._device)
            raise CudaError("cuCtxPushCurrent", code)

    def __exit__(self, *_: object) -> None:
        self._library.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))
        self._library.cuDevicePrimaryCtxRelease_v2(self._device)


def _has_context(library: ctypes.CDLL, ordinal: int) -> bool:
    flags, active = ctypes.c_uint(), ctypes.c_int()
    code = library.cuDevicePrimaryCtxGetState(ctypes.c_int(ordinal), ctypes.byref(flags), ctypes.byref(active))
    return code == 0 and active.value != 0


def free_and_total(ordinal: int) -> Optional[Tuple[int, int]]:
    """Free and total bytes of a device from cuMemGetInfo, including a limit (GPUMEM_LIMIT); None if the device has
    no primary context, because creating one would change the figure."""
    library = _loaded()
    if library is None or not _has_context(library, ordinal):
        return None
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    with _Primary(library, ordinal):
        if library.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) != 0:
            return None
    return free.value, total.value


def retain_context(ordinal: int) -> bool:
    """Creates and keeps a device's primary context, so that later figures do not include its cost."""
    if not initialise():
        return False
    return call("cuDevicePrimaryCtxRetain", ctypes.byref(ctypes.c_void_p()), ctypes.c_int(ordinal)) == 0


class Allocation:
    """Memory of a device directly from the driver, as long as the object lives."""

    def __init__(self, nbytes: int, device: int = 0) -> None:
        self.nbytes, self.device, self.ptr = nbytes, device, 0
        if nbytes == 0:
            return
        if not retain_context(device):
            raise CudaError("cuDevicePrimaryCtxRetain", 100)
        library = _loaded()
        assert library is not None
        pointer = ctypes.c_uint64()
        try:
            with _Primary(library, device):
                code = library.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(nbytes))
        except BaseException:
            library.cuDevicePrimaryCtxRelease_v2(ctypes.c_int(device))
            raise
        if code != 0:
            library.cuDevicePrimaryCtxRelease_v2(ctypes.c_int(device))
            raise CudaError("cuMemAlloc", code)
        self.ptr = pointer.value

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        """Lets CuPy, numba, PyTorch and others access it as bytes."""
        return {"shape": (self.nbytes,), "typestr": "|u1", "data": (self.ptr, False), "version": 3}

    def free(self) -> None:
        """Frees the memory. A second call does nothing."""
        pointer, self.ptr = self.ptr, 0
        library = _library
        if pointer and library is not None:
            with _Primary(library, self.device):
                library.cuMemFree_v2(ctypes.c_uint64(pointer))
            library.cuDevicePrimaryCtxRelease_v2(ctypes.c_int(self.device))

    def __del__(self) -> None:
        try:
            self.free()
        except Exception:  # the interpreter or CUDA is ending, which frees the memory
            pass

    def __repr__(self) -> str:
        return f"<Allocation of {self.nbytes} bytes on device {self.device}>"
