"""CuPy: its memory pool (which carries a static runtime), a kernel, an FFT, blocks freed and kept."""

import cupy
import figures


def main():
    kept = [cupy.arange(1 << 22, dtype=cupy.float32) * n for n in range(8)]
    product = cupy.random.rand(1024, 1024) @ cupy.random.rand(1024, 1024)
    spectrum = cupy.fft.fft(kept[0])
    del kept[::2]
    cupy.get_default_memory_pool().free_all_blocks()
    cupy.cuda.runtime.deviceSynchronize()
    figures.tell(
        pool_bytes=cupy.get_default_memory_pool().total_bytes(), total=float(product.sum() + abs(spectrum[0]))
    )


if __name__ == "__main__":
    main()
