"""Cards as a plan takes them: by both ends of what is known of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Dict

from .. import _sizes
from .verdict import Ends


# On it everything fits.
ROOMY = "1TiB"


class UnknownCard(ValueError):
    """What names no card."""


def ends(name: str, devices: int) -> Ends:
    """A card by its name, its file, or its size."""
    try:
        size = _sizes.parse_of_card(name)
    except ValueError as error:
        raise UnknownCard(str(error)) from None
    settings: Dict[str, str] = {"GPUMEM_SIM_DEVICES": str(devices), "GPUMEM_SIM_MEMORY": str(size)}
    return Ends(f"a card of {_sizes.text(size)}", name, settings, settings, (size, size))


def with_memory(card: Ends, size: str) -> Ends:
    """The same card with another memory."""
    memory = {"GPUMEM_SIM_MEMORY": str(_sizes.parse(size))}
    total = (_sizes.parse(size),) * 2
    return replace(card, worse={**card.worse, **memory}, better={**card.better, **memory}, total=total)
