"""Tracks the storages whose values are the same as in the real program.

Device memory is known if it was copied from known host memory, zeroed, or written by an operation that was computed
from known values. Host memory is known unless it was copied from unknown device memory, or computed from that. The
state applies to a whole storage: a write to a part of it only changes the state if the part is unknown."""

from __future__ import annotations

import os
import threading
from typing import Any, Dict, Iterable, List, Tuple

# The number of entries at which dead storages are first removed.
_FIRST_SWEEP = 4096


class Known:
    """The storages that differ from their device's default. A weak reference keeps a storage's identity, but
    not its memory."""

    def __init__(self, torch: Any):
        self._storage = torch.UntypedStorage
        self._strided = torch.strided
        self._device: Dict[int, int] = {}
        self._host: Dict[int, int] = {}
        # Files that are mapped and not read: address, bytes, the storage, and the largest part that counts as read.
        self._mapped: List[Tuple[int, int, int, int]] = []
        self._sweep_at = _FIRST_SWEEP
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        # Another thread may have held it.
        self._lock = threading.Lock()

    @property
    def host_is_known(self) -> bool:
        """Whether no unknown value has reached the host."""
        return not self._host and not self._mapped

    def __call__(self, tensor: Any) -> bool:
        if tensor.layout != self._strided:
            # Such a tensor has no storage to look up.
            return False
        key = tensor.untyped_storage()._cdata
        if tensor.device.type == "cpu":
            return key not in self._host and not (self._mapped and self.is_mapped(tensor))
        return key in self._device

    def all(self, tensors: Iterable[Any]) -> bool:
        return all(map(self, tensors))

    def mapped(self, storage: Any, read: int) -> None:
        """Records the storage of a mapped file whose values are not read, except parts of up to `read` bytes."""
        with self._lock:
            self._mapped = [each for each in self._mapped if not self._gone(each)]
            self._mapped.append((storage.data_ptr(), storage.nbytes(), storage._weak_ref(), read))

    def _gone(self, mapped: Tuple[int, int, int, int]) -> bool:
        if not self._storage._expired(mapped[2]):
            return False
        self._storage._free_weak_ref(mapped[2])
        return True

    def is_mapped(self, tensor: Any) -> bool:
        """Whether a host tensor is in such a file. Parts of a file have separate storages."""
        storage = tensor.untyped_storage()
        at, size = storage.data_ptr(), storage.nbytes()
        return any(
            begin <= at < begin + length and size > read and not self._storage._expired(of) for begin, length, of, read in list(self._mapped)
        )

    def fresh(self, tensor: Any, known: bool) -> None:
        """Records a write of a whole storage."""
        if tensor.layout != self._strided:
            return
        storage = tensor.untyped_storage()
        on_host = tensor.device.type == "cpu"
        table = self._host if on_host else self._device
        key = storage._cdata
        if known != on_host:
            if key not in table:
                with self._lock:
                    table[key] = storage._weak_ref()
                    if len(table) >= self._sweep_at:
                        self._sweep()
        elif key in table:
            with self._lock:
                self._forget(table, key)

    def written(self, tensor: Any, known: bool) -> None:
        """Records a write of a tensor's part of its storage."""
        if not known or self._is_whole(tensor):
            self.fresh(tensor, known)

    def keys(self, tensors: Iterable[Any]) -> List[int]:
        """The known device storages of these tensors."""
        keys = (tensor.untyped_storage()._cdata for tensor in tensors if tensor.device.type == "cuda")
        return [key for key in keys if key in self._device]

    def device_keys(self) -> List[int]:
        """All known device storages."""
        return list(self._device)

    def forget(self, keys: Iterable[int]) -> None:
        """Marks device storages as unknown, because unknown values may have been written."""
        with self._lock:
            for key in keys:
                self._forget(self._device, key)

    @staticmethod
    def _is_whole(tensor: Any) -> bool:
        extent = 1
        for length, stride in zip(tensor.shape, tensor.stride()):
            if length > 1 and stride == 0:
                return False
            extent += (length - 1) * stride
        # A tensor with gaps spans more than its elements.
        return bool(extent == tensor.numel() and extent * tensor.element_size() >= tensor.untyped_storage().nbytes())

    def _forget(self, table: Dict[int, int], key: int) -> None:
        reference = table.pop(key, None)
        if reference is not None:
            self._storage._free_weak_ref(reference)

    def _sweep(self) -> None:
        for table in (self._device, self._host):
            for key, reference in list(table.items()):
                if self._storage._expired(reference):
                    self._forget(table, key)
        self._sweep_at = max(_FIRST_SWEEP, 2 * max(len(self._device), len(self._host)))
