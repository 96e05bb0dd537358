"""Reads and writes device memory with the driver's copies, without a tensor on the device.

PyTorch's own copy would allocate on the device for a tensor that is not contiguous. Here each contiguous run of
memory is one call of the driver, and strided tensors are assembled on the host."""

from __future__ import annotations

import ctypes
import os
from typing import Any, List, Optional, Tuple

_INVALID_CONTEXT = 201
# The simulated driver skips larger copies from the host.
COPY_MOST = "GPUMEM_SIM_COPY_MOST"
# A strided tensor is copied run by run up to this many runs, else with the gaps between its elements, up to this
# many bytes.
RUNS = 2048
SPAN_BYTES = 64 << 20

Dims = List[Tuple[int, int]]


class DeviceMemory:
    """Device memory of the process, through the driver."""

    def __init__(self, torch: Any):
        self._torch = torch
        # PyTorch's own function. A program may replace it for a while, as DeepSpeed's zero.Init does.
        self.empty = torch.empty
        most = os.environ.get(COPY_MOST, "")
        self._copy_most = int(most) if most.isdigit() else None
        driver = ctypes.CDLL("libcuda.so.1")
        self._to_host = driver.cuMemcpyDtoH_v2
        self._to_host.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t]
        self._to_device = driver.cuMemcpyHtoD_v2
        self._to_device.argtypes = [ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t]
        self._set = driver.cuMemsetD8_v2
        self._set.argtypes = [ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t]

    def read(self, tensor: Any) -> Optional[Any]:
        """A copy of the tensor on the CPU, in new storage, with its shape; `None` if its elements are too scattered."""
        empty, size = self.empty, tensor.element_size()
        shape, strides = tensor.shape, tensor.stride()
        if tensor.numel() == 0:
            return empty(shape, dtype=tensor.dtype, device="cpu")
        block, outer = _layout(shape, strides)
        if not outer:
            host = empty(block, dtype=tensor.dtype, device="cpu")
            if not self._copied(self._to_host, host.data_ptr(), tensor.data_ptr(), block * size, tensor):
                return None
            return host.as_strided(shape, strides)
        span, runs = _span(block, outer), _runs(outer)
        if span <= 4 * block * runs or (runs > RUNS and span * size <= SPAN_BYTES):
            host = empty(span, dtype=tensor.dtype, device="cpu")
            if not self._copied(self._to_host, host.data_ptr(), tensor.data_ptr(), span * size, tensor):
                return None
            return host.as_strided(shape, strides).contiguous()
        if runs > RUNS:
            return None
        host = empty(block * runs, dtype=tensor.dtype, device="cpu")
        at = host.data_ptr()
        for offset in _offsets(outer):
            if not self._copied(self._to_host, at, tensor.data_ptr() + offset * size, block * size, tensor):
                return None
            at += block * size
        return host.as_strided(shape, _packed(shape, strides))

    def write(self, tensor: Any, value: Any) -> bool:
        """Writes a value from the CPU to the tensor's memory. Returns whether it did."""
        if tensor.device.type == "cpu":
            tensor.copy_(value)
            return True
        size = tensor.element_size()
        shape, strides = tensor.shape, tensor.stride()
        if value.shape != shape or tensor.is_conj() or tensor.is_neg() or self.is_left_out(tensor):
            return False
        if tensor.numel() == 0:
            return True
        if any(length > 1 and stride == 0 for length, stride in zip(shape, strides)):
            return False
        block, outer = _layout(shape, strides)
        if not outer and value.dtype == tensor.dtype and _ordered(shape, value, tensor):
            return self._copied(self._to_device, tensor.data_ptr(), value.data_ptr(), block * size, tensor)
        span, runs = _span(block, outer), _runs(outer)
        if runs > RUNS:
            if span * size > SPAN_BYTES:
                return False
            host = self.empty(span, dtype=tensor.dtype, device="cpu")
            if not self._copied(self._to_host, host.data_ptr(), tensor.data_ptr(), span * size, tensor):
                return False
            host.as_strided(shape, strides).copy_(value)
            return self._copied(self._to_device, tensor.data_ptr(), host.data_ptr(), span * size, tensor)
        host = self.empty(block * runs, dtype=tensor.dtype, device="cpu")
        host.as_strided(shape, _packed(shape, strides)).copy_(value)
        at = host.data_ptr()
        for offset in _offsets(outer):
            if not self._copied(self._to_device, tensor.data_ptr() + offset * size, at, block * size, tensor):
                return False
            at += block * size
        return True

    def is_left_out(self, tensor: Any) -> bool:
        """Whether the simulated driver skips a copy from the host to this tensor."""
        return self._copy_most is not None and tensor.device.type == "cuda" and tensor.numel() * tensor.element_size() > self._copy_most

    def zero(self, tensor: Any) -> bool:
        """Zeroes the tensor's memory if it is contiguous. Returns whether it did."""
        if tensor.device.type == "cpu":
            tensor.zero_()
            return True
        if tensor.numel() == 0:
            return True
        block, outer = _layout(tensor.shape, tensor.stride())
        return not outer and self._copied(self._set, tensor.data_ptr(), 0, block * tensor.element_size(), tensor)

    def _copied(self, call: Any, to: int, source: int, size: int, tensor: Any) -> bool:
        result = call(to, source, size)
        if result == _INVALID_CONTEXT:
            # The first call on a thread: the runtime makes the device's context current.
            self._torch.cuda.mem_get_info(tensor.device)
            result = call(to, source, size)
        return bool(result == 0)


def _dims(shape: Any, strides: Any) -> Dims:
    """Extents and strides of the dimensions in memory order, the outermost first."""
    dims = [(stride, length) for length, stride in zip(shape, strides) if length > 1 and stride > 0]
    dims.sort(reverse=True)
    return dims


def _ordered(shape: Any, one: Any, other: Any) -> bool:
    """Whether two tensors of a shape have the same relevant strides."""
    return all(a == b for a, b, length in zip(one.stride(), other.stride(), shape) if length > 1)


def _layout(shape: Any, strides: Any) -> Tuple[int, Dims]:
    """The number of elements of the largest contiguous run, and the dimensions over the runs."""
    dims = _dims(shape, strides)
    block = 1
    while dims and dims[-1][0] == block:
        block *= dims.pop()[1]
    return block, dims


def _runs(outer: Dims) -> int:
    count = 1
    for _, length in outer:
        count *= length
    return count


def _span(block: int, outer: Dims) -> int:
    return block + sum(stride * (length - 1) for stride, length in outer)


def _offsets(outer: Dims) -> List[int]:
    offsets = [0]
    for stride, length in outer:
        offsets = [offset + stride * at for offset in offsets for at in range(length)]
    return offsets


def _packed(shape: Any, strides: Any) -> List[int]:
    """Strides with the same order of dimensions, without gaps."""
    order = sorted(
        (at for at, (length, stride) in enumerate(zip(shape, strides)) if length > 1 and stride > 0),
        key=lambda at: (strides[at], shape[at]),
    )
    packed, block = [0] * len(shape), 1
    for at in order:
        packed[at] = block
        block *= shape[at]
    return packed
