"""Cards as a plan takes them: by both ends of what is known of them."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Dict

from .. import _cards, _sizes
from .verdict import Ends

# Libraries whose memory is a model with a range: its ends (docs/cudnn.md, docs/nccl.md, simulator/README.md).
_MOST = {
    "GPUMEM_SIM_CUDNN_WORKSPACE": "high", "GPUMEM_SIM_NCCL_MODEL": "high", "GPUMEM_SIM_CUFFT_WORKSPACE": "high",
    "GPUMEM_SIM_CUSOLVER_WORKSPACE": "high",
}  # fmt: skip
_LEAST = {
    "GPUMEM_SIM_CUDNN_WORKSPACE": "0", "GPUMEM_SIM_NCCL_MODEL": "low", "GPUMEM_SIM_CUFFT_WORKSPACE": "low",
    "GPUMEM_SIM_CUSOLVER_WORKSPACE": "low",
}  # fmt: skip
# On it everything fits.
ROOMY = "1TiB"


class UnknownCard(ValueError):
    """What names no card."""


def ends(name: str, devices: int) -> Ends:
    """A card by its name, its file, or its size."""
    many = {"GPUMEM_SIM_DEVICES": str(devices)}
    try:
        return _of_size(_sizes.parse_of_card(name), name, many)
    except ValueError as error:
        if name[:1].isdecimal() and not _is_known(name):
            raise UnknownCard(str(error)) from None
    try:
        card = _cards.find(name)
    except (_cards.Unknown, _cards.NotACard) as error:
        raise UnknownCard(str(error)) from None
    code = card.modules.get("torch")
    margin = code.high - code.likely if code else 0
    worse = {**_MOST, **_cards.environment(card, "low"), **many, "GPUMEM_SIM_OTHER_BYTES": str(margin)}
    better = {**_LEAST, **_cards.environment(card, "high"), **many}
    total = (card.cuda_total.low, card.cuda_total.high)
    return Ends(card.name, os.path.basename(card.name), worse, better, total, margin, card.context.source.kind)


def _is_known(name: str) -> bool:
    try:
        _cards.find(name)
    except (_cards.Unknown, _cards.NotACard):
        return False
    return True


def _of_size(size: int, name: str, many: Dict[str, str]) -> Ends:
    settings = {**many, "GPUMEM_SIM_MEMORY": str(size)}
    return Ends(f"a card of {_sizes.text(size)}", name, {**_MOST, **settings}, {**_LEAST, **settings}, (size, size))


def with_memory(card: Ends, size: str) -> Ends:
    """The same card with another memory."""
    memory = {"GPUMEM_SIM_MEMORY": str(_sizes.parse(size))}
    total = (_sizes.parse(size),) * 2
    return replace(card, worse={**card.worse, **memory}, better={**card.better, **memory}, total=total)
