"""The part `values`: small operations are also computed on the CPU, so that programs that read values back can
continue."""

from __future__ import annotations

from typing import Any

from . import mode


def install(torch: Any) -> None:
    """Makes the mode compute values."""
    installed = mode.ensure(torch)
    if installed is not None:
        installed.values.compute = True
