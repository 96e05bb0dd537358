"""The CUDA driver through ctypes, for the checks of the simulated one: a call gives its result code
or, with `must`, its output."""

import ctypes
import json
from ctypes import Structure, byref, c_int, c_size_t, c_uint32, c_uint64, c_void_p

SUCCESS = 0
INVALID_VALUE = 1
OUT_OF_MEMORY = 2
NOT_INITIALIZED = 3
INVALID_DEVICE = 101
INVALID_CONTEXT = 201
INVALID_HANDLE = 400
NOT_FOUND = 500
PEER_ACCESS_ALREADY_ENABLED = 704
PEER_ACCESS_NOT_ENABLED = 705
CONTEXT_IS_DESTROYED = 709
HOST_MEMORY_ALREADY_REGISTERED = 712
HOST_MEMORY_NOT_REGISTERED = 713
NOT_SUPPORTED = 801

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

LIBRARY = ctypes.CDLL("libcuda.so.1")


def code(name, *arguments):
    """Calls a function with Python integers (as 64-bit words), bytes and ctypes values; its result
    code."""
    words = [c_uint64(a & (1 << 64) - 1) if isinstance(a, int) else a for a in arguments]
    function = getattr(LIBRARY, name)
    function.restype = c_int
    return function(*words)


def must(name, *arguments):
    """Calls a function that must succeed."""
    got = code(name, *arguments)
    assert got == SUCCESS, f"{name} gave {got}"


def out(name, *arguments, kind=c_uint64):
    """Calls a function whose first parameter is its output, must succeed; the output."""
    place = kind()
    must(name, byref(place), *arguments)
    return place.value


def books(device=0):
    """The simulator's books of one device."""
    read = LIBRARY.gpumem_sim_books_json
    size = read(None, c_size_t(0)) + 4096
    buffer = ctypes.create_string_buffer(size)
    assert 0 < read(buffer, c_size_t(size)) < size
    return json.loads(buffer.value)["devices"][device]


def now(kind, device=0):
    """Live bytes of one kind by the C function, which must agree with the JSON."""
    current, peak = c_uint64(), c_uint64()
    assert LIBRARY.gpumem_sim_books(device, kind.encode(), byref(current), byref(peak)) == 0
    of_device = books(device)
    row = of_device.get(kind) or of_device["kinds"][kind]
    assert (current.value, peak.value) == (row["current"], row["peak"])
    return current.value


def peak(kind, device=0):
    """Greatest live bytes of one kind."""
    of_device = books(device)
    return (of_device.get(kind) or of_device["kinds"][kind])["peak"]


def card():
    """Requested bytes, and physical ones beyond the context's."""
    return now("driver"), now("physical") - books()["context_bytes"]


def memory_info():
    """cuMemGetInfo: free and total."""
    free, total = c_size_t(), c_size_t()
    must("cuMemGetInfo_v2", byref(free), byref(total))
    return free.value, total.value


def start(device=0):
    """Initialises and makes the device's primary context current; its handle."""
    must("cuInit", 0)
    context = out("cuDevicePrimaryCtxRetain", device)
    must("cuCtxSetCurrent", context)
    return context


class Location(Structure):
    """CUmemLocation; kind 1 is a device."""

    _fields_ = [("kind", c_uint32), ("id", c_int)]


class AllocationProperties(Structure):
    """CUmemAllocationProp."""

    _fields_ = [
        ("kind", c_uint32),
        ("handle_types", c_uint32),
        ("location", Location),
        ("meta", c_void_p),
        ("flags", c_uint64),
    ]


class Access(Structure):
    """CUmemAccessDesc."""

    _fields_ = [("location", Location), ("flags", c_uint32)]


class PoolProperties(Structure):
    """CUmemPoolProps."""

    _fields_ = [
        ("kind", c_uint32),
        ("handle_types", c_uint32),
        ("location", Location),
        ("security", c_void_p),
        ("max_bytes", c_size_t),
        ("reserved", ctypes.c_char * 56),
    ]


class ArrayShape(Structure):
    """CUDA_ARRAY3D_DESCRIPTOR."""

    _fields_ = [
        ("width", c_size_t),
        ("height", c_size_t),
        ("depth", c_size_t),
        ("format", c_uint32),
        ("channels", c_uint32),
        ("flags", c_uint32),
    ]


class IpcHandle(Structure):
    """CUipcMemHandle."""

    _fields_ = [("reserved", ctypes.c_char * 64)]


class Uuid(Structure):
    """CUuuid, from text."""

    _fields_ = [("bytes", ctypes.c_ubyte * 16)]

    @classmethod
    def of(cls, text):
        """From the form with dashes."""
        return cls((ctypes.c_ubyte * 16)(*bytes.fromhex(text.replace("-", ""))))


def physical(bytes_, device=0, handle_types=0):
    """cuMemCreate; the handle."""
    properties = AllocationProperties(1, handle_types, Location(1, device), None, 0)
    return out("cuMemCreate", bytes_, byref(properties), 0)


def allow(base, bytes_, device=0, flags=3):
    """cuMemSetAccess; the result code."""
    return code("cuMemSetAccess", base, bytes_, byref(Access(Location(1, device), flags)), 1)


def read_back(pointer, bytes_):
    """Copies device memory to the host."""
    buffer = ctypes.create_string_buffer(bytes_)
    must("cuMemcpyDtoH_v2", buffer, pointer, bytes_)
    return buffer.raw


__all__ = [name for name in dir() if not name.startswith("_")]
