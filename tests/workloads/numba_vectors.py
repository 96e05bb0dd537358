"""numba-cuda as a client of the driver: arrays to the device and back, pinned and managed ones, and
an allocation that the card cannot hold."""

import numpy
from numba import cuda

vector = numpy.arange(100_000, dtype=numpy.float64)
on_device = cuda.to_device(vector)
more = [cuda.device_array(10_000, dtype=numpy.float32) for _ in range(10)]
pinned = cuda.pinned_array(5000, dtype=numpy.uint8)
pinned[:] = 7
back = on_device.copy_to_host()
print("same:", bool((back == vector).all()), "sum of the pinned:", int(pinned.sum()))
del more[::2]
try:
    cuda.device_array(2**45, dtype=numpy.uint8)
except Exception as error:  # noqa: BLE001 (which class it is, is what is printed)
    print(type(error).__name__, str(error)[:60])
print("free of total:", cuda.current_context().get_memory_info()[1])
