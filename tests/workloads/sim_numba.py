"""numba-cuda on the simulated driver: arrays go there and back, the books follow, and a kernel
launches: handed over as PTX, and compiled by numba where this environment has a compiler."""

import ctypes

import numpy as np
from numba import cuda
from sim_cuda import books


def live():
    return books()["kinds"]["device"]["current"]


def launch_ptx(pointer):
    """A kernel without a compiler: its image through the driver API."""
    driver = ctypes.CDLL("libcuda.so.1")
    ptx = b".version 6.0\n.target sm_60\n.address_size 64\n.visible .entry nothing() { ret; }\n\0"
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    assert driver.cuModuleLoadData(ctypes.byref(module), ptx) == 0
    assert driver.cuModuleGetFunction(ctypes.byref(function), module, b"nothing") == 0
    one = ctypes.c_uint32(1)
    extents = [one] * 6
    zero = ctypes.c_uint32(0)
    argument = ctypes.c_uint64(pointer)
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(argument))
    launched = driver.cuLaunchKernel(function, *extents, zero, None, arguments, None)
    assert launched == 0, launched


def can_compile():
    """Whether numba finds the compiler's library (libNVVM)."""
    try:
        return cuda.is_available()
    except Exception as reason:  # noqa: BLE001  (the loader has several ways to say no)
        print(f"no compiler here: {type(reason).__name__}")
        return False


def launch_compiled():
    """A kernel of numba's own making, launched."""

    @cuda.jit
    def add_one(values):
        index = cuda.grid(1)
        if index < values.size:
            values[index] += 1

    values = cuda.to_device(np.zeros(1000, dtype=np.float32))
    add_one[4, 256](values)
    cuda.synchronize()
    print("kernel compiled and launched")


def main():
    assert len(cuda.gpus) == 1
    assert cuda.get_current_device().compute_capability == (9, 0)
    before = live()
    numbers = np.arange(1000, dtype=np.float32)
    there = cuda.to_device(numbers)
    assert live() == before + 4000
    assert (there.copy_to_host() == numbers).all()
    matrix = cuda.device_array((30, 20), dtype=np.float64)
    assert live() == before + 4000 + 4800
    matrix.copy_to_device(np.ones((30, 20)))
    assert (matrix.copy_to_host() == 1).all()
    pinned = cuda.pinned_array(100, dtype=np.float64)
    assert books()["host"]["current"] == 800
    free, total = cuda.current_context().get_memory_info()
    assert total - free == books()["physical"]["current"]
    stream, event = cuda.stream(), cuda.event()
    event.record(stream)
    event.synchronize()
    stream.synchronize()

    launch_ptx(there.device_ctypes_pointer.value)
    del there, matrix, pinned
    cuda.current_context().memory_manager.deallocations.clear()
    assert live() == before, (live(), before)
    if can_compile():
        launch_compiled()
    print("arrays went there and back")


main()
