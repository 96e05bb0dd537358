"""Looks up cards by name, by CUDA's device name, and by file."""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path
from typing import Dict, List, Optional, Union

from ..._text import sizes
from .card import Card, load

_FOLDER = Path(__file__).resolve().parent / "known"
_NEAREST = 4


class Unknown(LookupError):
    """No card has this name; the message lists similar names."""


def known() -> List[Card]:
    """The cards in the package, by compute capability and name."""
    cards = [load(path) for path in _FOLDER.glob("*.json")]
    return sorted(cards, key=lambda card: (card.compute_capability, card.name))


def normal(name: str) -> str:
    """A name in the form for comparisons: `RTX 4090`, `rtx-4090` and `rtx4090` are equal."""
    return re.sub(r"[\s_-]+", "", name.lower())


def find(name: str) -> Card:
    """The card with this name or alias, with this name in CUDA (`NVIDIA H100 80GB HBM3`), or in this file. Raises
    Unknown with similar names, or NotACard with the error in a file."""
    if os.sep in name or name.endswith(".json"):
        return load(name)
    names = _names(known())
    card = names.get(normal(name))
    if card is None:
        raise Unknown(f"no card {name!r}{_near(normal(name), names)} (gpumem card list)")
    return card


def find_or_size(name: str) -> Union[Card, int]:
    """The same, or the bytes of a size such as `24GiB`, for a card of unknown kind."""
    try:
        size = sizes.parse_of_card(name)
        if size == 0:
            raise ValueError(f"{name!r} is no size of a card")
        return size
    except ValueError as error:
        try:
            return find(name)
        except Unknown:
            if name[:1].isdecimal():
                raise Unknown(str(error)) from None
            raise


def by_device_name(name: str) -> Optional[Card]:
    """The card in the package with this name in CUDA."""
    for card in known():
        if normal(name) in map(normal, card.device_names):
            return card
    return None


def _names(cards: List[Card]) -> Dict[str, Card]:
    return {normal(name): card for card in cards for name in (card.name, *card.aliases, *card.device_names)}


def _near(name: str, names: Dict[str, Card]) -> str:
    """Cards whose names begin with or contain the text, or else similar names."""
    holding = [each for each in sorted(names) if name and (each.startswith(name) or name in each)]
    near = holding or difflib.get_close_matches(name, sorted(names), n=_NEAREST, cutoff=0.5)
    cards = list(dict.fromkeys(names[each].name for each in near))[:_NEAREST]
    return f"; near are {', '.join(cards)}" if cards else ""
