"""Makes the sums of gradients that the autograd engine would make in place.

The engine adds a gradient in place if it holds the only reference to the other one. A tensor that came through Python
has one more reference. So under the mode the engine would allocate a new tensor, which the real program does not do.
The mode then adds in place instead: the engine gets back its own tensor."""

from __future__ import annotations

import ctypes
from typing import Any, Dict, Optional

# Number of frames to search for the engine's: frames of Python and of the dispatcher are in between.
_DEPTH = 96


class _Symbol(ctypes.Structure):
    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p), ("address", ctypes.c_void_p)]


class Accumulation:
    """Recognises the engine's sums."""

    def __init__(self, torch: Any):
        self._torch = torch
        process = ctypes.CDLL(None)
        self._backtrace, self._dladdr = process.backtrace, process.dladdr
        self._backtrace.argtypes = [ctypes.c_void_p, ctypes.c_int]
        self._dladdr.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        self._engine: Dict[int, bool] = {}
        self._node = getattr(torch._C, "_current_autograd_node", lambda: None)
        self._storage_count = getattr(torch._C, "_storage_Use_Count", None)
        self._in_place = torch.ops.aten.add_.Tensor
        self._alone: Optional[Any] = None
        self.of = torch.ops.aten.add.Tensor

    def counted(self, tensor: Any) -> Any:
        """References to a tensor and to its memory, as counted in the mode. A tensor that only the caller of an
        operation holds has the fewest; `calibrate` measures them with one."""
        return tensor._use_count(), self._storage_count(tensor.untyped_storage()._cdata) if self._storage_count else 0

    def calibrate(self, tensor: Any) -> None:
        self._alone = self.counted(tensor)

    def in_place(self, args: Any, kwargs: Any) -> Any:
        """The operation to run instead of the engine's sum; `None` if no change is needed, or the sum is not the
        engine's."""
        if self._alone is None or kwargs or len(args) != 2 or self._node() is None or self._torch.is_grad_enabled():
            return None
        into = args[0]
        if not isinstance(into, self._torch.Tensor) or into.layout != self._torch.strided or not self._is_engines():
            return None
        if into._is_zerotensor() or not _is_dense(into) or self.counted(into) != self._alone:
            return None
        return self._in_place

    def _is_engines(self) -> bool:
        frames = (ctypes.c_void_p * _DEPTH)()
        for frame in frames[: self._backtrace(frames, _DEPTH)]:
            address = frame or 0
            engines = self._engine.get(address)
            if engines is None:
                symbol = _Symbol()
                found = self._dladdr(address, ctypes.byref(symbol)) and symbol.name
                engines = self._engine[address] = bool(found) and b"8autograd11InputBuffer" in symbol.name
            if engines:
                return True
        return False


def _is_dense(tensor: Any) -> bool:
    block = 1
    for stride, length in sorted(zip(tensor.stride(), tensor.shape)):
        if length > 1:
            if stride != block:
                return False
            block *= length
    return True
