"""The driver by ctypes, for Python programs of the zoo: allocations, releases and the simulator's books."""

import ctypes

_driver = ctypes.CDLL("libcuda.so.1")


def _checked(result):
    if result != 0:
        raise RuntimeError(f"CUDA error {result}")


def start():
    """Makes device 0's context current on this thread."""
    context = ctypes.c_void_p()
    _checked(_driver.cuInit(0))
    _checked(_driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    _checked(_driver.cuCtxSetCurrent(context))


def alloc(size):
    """Allocates and returns the address."""
    pointer = ctypes.c_uint64()
    _checked(_driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)))
    return pointer.value


def free(pointer):
    """Releases what `alloc` gave."""
    _checked(_driver.cuMemFree_v2(ctypes.c_uint64(pointer)))


def refuses():
    """Whether the driver refuses an allocation: it does so in a forked child."""
    pointer = ctypes.c_uint64()
    return _driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(4096)) != 0


def told(what):
    """`WHAT: N live, N peak` by the simulator's books, in one write(2)."""
    import os

    current, peak = ctypes.c_uint64(), ctypes.c_uint64()
    _checked(_driver.gpumem_sim_books(0, b"driver", ctypes.byref(current), ctypes.byref(peak)))
    os.write(1, f"{what}: {current.value} live, {peak.value} peak\n".encode())
