"""Cards as environment variables of the simulator (docs/simulator.md)."""

from __future__ import annotations

from typing import Dict, Mapping, Optional, Union

from .card import Card, Figure
from .finding import find_or_size

# The end of each range to take: total, context and stream. `low` is the least room for a program.
_ENDS = {"low": ("low", "high"), "likely": ("likely", "likely"), "high": ("high", "low")}


def environment(card: Union[Card, int], which: str = "likely") -> Dict[str, str]:
    """Variables that give every simulated card the properties of this one. `which` selects the figures of its ranges:
    `low` is the least room for a program (the smallest total, the largest context), `high` the most, `likely` in
    between. NVML's total is the same in all three. Of a card of unknown kind, only the memory is set."""
    return environment_of({None: card}, which)


def environment_of(cards: Mapping[Optional[int], Union[Card, int]], which: str = "likely") -> Dict[str, str]:
    """The same with a different card for each device; the key `None` stands for all other devices."""
    values: Dict[str, Dict[Optional[int], str]] = {}
    for device, card in cards.items():
        for name, value in _of_one(card, which).items():
            values.setdefault(name, {})[device] = value
    result = {name: ",".join(_entry(device, value) for device, value in each.items()) for name, each in values.items()}
    numbers = [device for device in cards if device is not None]
    if numbers:
        result["GPUMEM_SIM_DEVICES"] = str(max(numbers) + 1)
    return result


def parse(text: str) -> Dict[Optional[int], Union[Card, int]]:
    """Parses `h100`, `24GiB`, `0=h100,1=t4` or `h100,1=24GiB`. Raises ValueError, Unknown or NotACard."""
    cards: Dict[Optional[int], Union[Card, int]] = {}
    for part in text.split(","):
        device, equals, name = part.partition("=")
        # A file name may contain `=`.
        if not equals or not device.strip().isdecimal():
            device, name = "", part
        number = int(device) if device else None
        if number in cards:
            raise ValueError(f"{text!r} names two cards for " + ("all GPUs" if number is None else f"GPU {number}"))
        if number is not None and number > 63:
            raise ValueError(f"{text!r}: there is no GPU {number}, the highest is 63")
        cards[number] = find_or_size(name.strip())
    return cards


def _of_one(card: Union[Card, int], which: str) -> Dict[str, str]:
    if which not in _ENDS:
        raise ValueError(f"{which!r} is not low, likely or high")
    if isinstance(card, int):
        return {"GPUMEM_SIM_MEMORY": str(card)}
    end_of_total, end_of_context = _ENDS[which]
    total = _end(card.cuda_total, end_of_total)
    # Without NVML's total of a card, it has nothing beyond CUDA's total there.
    nvml = card.nvml_total
    return {
        "GPUMEM_SIM_NAME": card.device_names[0],
        "GPUMEM_SIM_MEMORY": str(total),
        "GPUMEM_SIM_RESERVED_BYTES": str(max(nvml.likely - total, 0) if nvml else 0),
        "GPUMEM_SIM_CC": "{}.{}".format(*card.compute_capability),
        "GPUMEM_SIM_SMS": str(card.sms),
        "GPUMEM_SIM_THREADS_PER_SM": str(card.threads_per_sm),
        "GPUMEM_SIM_CONTEXT_BYTES": str(_end(card.context, end_of_context)),
        "GPUMEM_SIM_STREAM_BYTES": str(_end(card.stream, end_of_context)),
    }


def _end(figure: Figure, end: str) -> int:
    value = getattr(figure, end)
    assert isinstance(value, int)
    return value


def _entry(device: Optional[int], value: str) -> str:
    return value if device is None else f"{device}={value}"
