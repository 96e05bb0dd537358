"""Reads of host values by Python without a PyTorch operation: NumPy arrays, lists."""

from __future__ import annotations

import functools
from typing import Any, Callable

_METHODS = ("numpy", "tolist", "__dlpack__")


def watch(torch: Any, values: Any, hide: Callable[[Any], None]) -> None:
    """Records these as reads if the values are unknown. `hide` excludes this code from the compiler."""
    for name in _METHODS:
        original = getattr(torch.Tensor, name)

        def method(self: Any, *args: Any, _name: str = name, _original: Any = original, **kwargs: Any) -> Any:
            if type(self) in (torch.Tensor, torch.nn.Parameter) and self.device.type == "cpu" and not values.known(self):
                given = values.reads.value(_name.strip("_"), False, None)
                if given is not None:
                    self.detach().fill_(given)
                    values.known.written(self, True)
            return _original(self, *args, **kwargs)

        hide(method)
        setattr(torch.Tensor, name, functools.wraps(original)(method))
