"""NVIDIA's libraries without a framework: measures the cost of a handle and of a first multiplication."""

from __future__ import annotations

import ctypes
import glob
import os
import sys
from typing import Callable, Dict

from ...._machine import driver
from .readings import Readings

# Versions in use, the newest first.
_VERSIONS = {"cublas": ("13", "12", "11"), "cublasLt": ("13", "12", "11"), "cudnn": ("9", "8")}
_SIDE = 256


class NotHere(Exception):
    """Something to be measured is not on this machine; the message names it."""


def _load(name: str) -> ctypes.CDLL:
    """The library that the loader finds, or one from a package of this Python."""
    for version in _VERSIONS[name]:
        try:
            return ctypes.CDLL(f"lib{name}.so.{version}", mode=ctypes.RTLD_GLOBAL)
        except OSError:
            continue
    for folder in sys.path:
        for path in sorted(glob.glob(os.path.join(glob.escape(folder), "nvidia", "*", "lib", f"lib{name}.so.*"))):
            try:
                return ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
            except OSError:
                continue
    raise NotHere(f"there is no lib{name}.so")


def _handle(library: ctypes.CDLL, function: str) -> ctypes.c_void_p:
    handle = ctypes.c_void_p()
    code = getattr(library, function)(ctypes.byref(handle))
    if code != 0:
        raise RuntimeError(f"{function} returned {code}")
    return handle


def _cublas(readings: Readings) -> None:
    library = _load("cublas")
    matrices = [driver.Allocation(_SIDE * _SIDE * 4) for _ in range(3)]
    readings.take("before")
    handle = _handle(library, "cublasCreate_v2")
    readings.take("handle")
    side, no = ctypes.c_int(_SIDE), ctypes.c_int(0)
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    left, right, product = (ctypes.c_void_p(matrix.ptr) for matrix in matrices)
    code = library.cublasSgemm_v2(
        handle, no, no, side, side, side, ctypes.byref(one), left, side, right, side, ctypes.byref(zero), product, side
    )
    if code != 0:
        raise RuntimeError(f"cublasSgemm returned {code}")
    driver.must("cuCtxSynchronize")
    readings.take("after")


def _of_handle(name: str, function: str) -> Callable[[Readings], None]:
    def measure(readings: Readings) -> None:
        library = _load(name)
        readings.take("before")
        _handle(library, function)
        readings.take("after")

    return measure


# By the name in a card's file: the work between the readings `before` and `after`.
LIBRARIES: Dict[str, Callable[[Readings], None]] = {
    "cublas": _cublas,
    "cublaslt": _of_handle("cublasLt", "cublasLtCreate"),
    "cudnn": _of_handle("cudnn", "cudnnCreate"),
}
