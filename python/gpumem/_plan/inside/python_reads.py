"""Values of the host that Python reads without an operation of PyTorch's: arrays of NumPy's, lists."""

from __future__ import annotations

import functools
from typing import Any, Callable

_METHODS = ("numpy", "tolist", "__dlpack__")


def watch(torch: Any, values: Any, hide: Callable[[Any], None]) -> None:
    """Has these be reads where the values are not known. `hide` keeps the compiler from code of ours."""
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
