"""`ipyexperiments.utils.pynvml_gate`: pynvml, ready for use. No other module of this package needs it."""

from typing import Any

__all__ = ["load_pynvml_env"]


def load_pynvml_env() -> Any:
    """The module `pynvml`, initialised; ImportError if it is not installed."""
    import pynvml

    pynvml.nvmlInit()
    return pynvml
