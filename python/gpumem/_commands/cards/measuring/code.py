"""An empty kernel, loaded with the driver only: measures the cost of a module, a first launch and stacks."""

from __future__ import annotations

import ctypes

from ...._machine import driver

# The oldest supported cards have compute capability 6.0; the driver translates the code for its card.
_PTX = b""".version 6.0
.target sm_60
.address_size 64
.visible .entry nothing() { ret; }
"""
_STACK_LIMIT = 0


def set_current(ordinal: int = 0) -> None:
    """Creates a device's primary context and makes it current on this thread."""
    context = ctypes.c_void_p()
    driver.must("cuDevicePrimaryCtxRetain", ctypes.byref(context), ctypes.c_int(ordinal))
    driver.must("cuCtxSetCurrent", context)


class EmptyKernel:
    """A loaded module with one kernel."""

    def __init__(self) -> None:
        self._module = ctypes.c_void_p()
        driver.must("cuModuleLoadData", ctypes.byref(self._module), ctypes.c_char_p(_PTX))

    def launch(self) -> None:
        """Runs one thread of it and waits for it."""
        function = ctypes.c_void_p()
        driver.must("cuModuleGetFunction", ctypes.byref(function), self._module, ctypes.c_char_p(b"nothing"))
        one, none = ctypes.c_uint(1), ctypes.c_void_p()
        driver.must("cuLaunchKernel", function, one, one, one, one, one, one, ctypes.c_uint(0), none, none, none)
        driver.must("cuCtxSynchronize")


def raise_stack_limit(by: int) -> None:
    """Raises the stack limit of the current context by this many bytes."""
    size = ctypes.c_size_t()
    driver.must("cuCtxGetLimit", ctypes.byref(size), ctypes.c_int(_STACK_LIMIT))
    driver.must("cuCtxSetLimit", ctypes.c_int(_STACK_LIMIT), ctypes.c_size_t(size.value + by))
