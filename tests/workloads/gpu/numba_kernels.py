"""numba-cuda: arrays on the card, pinned memory, a kernel compiled and launched (where numba can compile; the
figures record whether it can)."""

import figures
import numpy
from numba import cuda


@cuda.jit
def scale(out, values, factor):
    index = cuda.grid(1)
    if index < values.size:
        out[index] = values[index] * factor


def main():
    values = numpy.arange(1 << 20, dtype=numpy.float32)
    kept = [cuda.to_device(values) for _ in range(4)]
    out = cuda.device_array_like(kept[0])
    try:
        scale[(values.size + 255) // 256, 256](out, kept[0], numpy.float32(2))
        kernel = "launched"
    except Exception as error:  # no compiler, or one that does not go with this NumPy
        kernel = f"not compiled: {error!r}"[:200]
    pinned = cuda.pinned_array(1 << 20, dtype=numpy.uint8)
    pinned[:] = 1
    cuda.synchronize()
    del kept[1:3]
    figures.tell(kept=len(kept), kernel=kernel)


if __name__ == "__main__":
    main()
