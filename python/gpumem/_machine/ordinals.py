"""Devices in all common forms: 1, "cuda:1", `torch.device("cuda", 1)`, a device of CuPy, numba or JAX."""

import operator
from typing import Any, Optional, Union

from . import devices

# The number of valid ordinals.
_DEVICES = 255

# An ordinal, its text, or an object of a framework with `index` or `id`.
DeviceLike = Union[int, str, Any]


def ordinal(device: DeviceLike) -> int:
    """The device's ordinal in this process, if it is valid. "cuda" is the current device."""
    number = _number(device)
    if number is None:
        return devices.current()
    if not 0 <= number < _DEVICES:
        raise ValueError(f"no such device: {device}")
    return number


def ordinal_or_none(device: Optional[DeviceLike]) -> Optional[int]:
    """The same; None stays None."""
    return None if device is None else ordinal(device)


def _number(device: DeviceLike) -> Optional[int]:
    """The device's number; None if it has none."""
    if isinstance(device, bool):
        raise TypeError(f"a device is a number, a text as 'cuda:1' or a torch.device, and not {device!r}")
    if isinstance(device, str):
        return _number_in(device)
    kind = getattr(device, "type", None)
    if isinstance(kind, str) and hasattr(device, "index"):
        if kind != "cuda":
            raise ValueError(f"not a GPU: {device}")
        index = device.index
        return None if index is None else operator.index(index)
    try:
        return operator.index(device)
    except TypeError:
        pass
    if getattr(device, "platform", "gpu") not in ("gpu", "cuda"):
        raise ValueError(f"not a GPU: {device}")
    # JAX numbers the devices of all processes in `id`, and those of this one in `local_hardware_id`.
    for name in ("local_hardware_id", "id"):
        number = getattr(device, name, None)
        if isinstance(number, int):
            return number
    raise TypeError(f"a device is a number, a text as 'cuda:1' or a torch.device, and not {device!r}")


def _number_in(text: str) -> Optional[int]:
    kind, colon, number = text.strip().partition(":")
    if kind.isdecimal() and not colon:
        return int(kind)
    if kind not in ("cuda", "gpu"):
        raise ValueError(f"not a GPU: {text}")
    if not colon:
        return None
    if not number.isdecimal():
        raise ValueError(f"no such device: {text}")
    return int(number)
