"""Imports the package into the program, as if the program had `import gpumem`. The capture then has
the qualified names of modules, and parameters, gradients and optimizer states are identified by the
model instead of by their time. `gpumem run` uses this part without a plan."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any

# The folder that contains the package.
_FOLDER = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def install(torch: Any) -> None:
    """Imports the package that these parts belong to. The program's search path does not change. A Python that cannot
    import it has no names."""
    if "gpumem" in sys.modules:
        return
    sys.path.append(_FOLDER)
    try:
        with contextlib.suppress(Exception):
            import gpumem  # noqa: F401
    finally:
        sys.path.remove(_FOLDER)
