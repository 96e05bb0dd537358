"""The package in the program, as though it had `import gpumem`: the capture has the qualified names of modules, and what is a
parameter, a gradient or an optimizer's state is told by the model and not by the moment."""

from __future__ import annotations

import os
import sys
from typing import Any

# The folder that the package lies in.
_FOLDER = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def install(torch: Any) -> None:
    """Imports the package that these parts are of. The program's own search path stays as it is."""
    if "gpumem" in sys.modules:
        return
    sys.path.append(_FOLDER)
    try:
        import gpumem  # noqa: F401
    finally:
        sys.path.remove(_FOLDER)
