"""`fastai.utils.pynvml_gate`: pynvml, initialised. gpumem itself does not need it."""

from typing import Any

__all__ = ["load_pynvml_env"]


def load_pynvml_env() -> Any:
    """pynvml after `nvmlInit`; ImportError if it is not installed."""
    import pynvml

    pynvml.nvmlInit()
    return pynvml
