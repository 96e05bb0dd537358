"""The part `values`: small operations are also computed on the CPU, so that programs which read values back go on."""

from __future__ import annotations

from typing import Any

from . import mode


def install(torch: Any) -> None:
    """Has the mode compute."""
    installed = mode.ensure(torch)
    if installed is not None:
        installed.values.compute = True
