"""`ipyexperiments.utils.pynvml_gate`: pynvml, initialised. No other module of this package needs it."""

from ...fastai.utils.pynvml_gate import load_pynvml_env

__all__ = ["load_pynvml_env"]
