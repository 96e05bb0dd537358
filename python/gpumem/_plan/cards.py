"""Cards for a plan: both ends of the known range of each."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Dict, Tuple

from .._machine import cards
from .._text import sizes
from .verdict import Ends

# Libraries whose memory is modelled with a range: both ends (docs/cudnn.md, docs/nccl.md, simulator/README.md).
_MOST = {
    "GPUMEM_SIM_CUDNN_WORKSPACE": "high", "GPUMEM_SIM_NCCL_MODEL": "high", "GPUMEM_SIM_CUFFT_WORKSPACE": "high",
    "GPUMEM_SIM_CUSOLVER_WORKSPACE": "high",
}  # fmt: skip
_LEAST = {
    "GPUMEM_SIM_CUDNN_WORKSPACE": "0", "GPUMEM_SIM_NCCL_MODEL": "low", "GPUMEM_SIM_CUFFT_WORKSPACE": "low",
    "GPUMEM_SIM_CUSOLVER_WORKSPACE": "low",
}  # fmt: skip
# Libraries that load more code after PyTorch's first tensor.
_LATER = ("torch-conv", "torch-sdpa", "cublaslt")
# On this card everything fits.
ROOMY = "1TiB"


class UnknownCard(ValueError):
    """The text is not a card."""


def ends(name: str, devices: int) -> Ends:
    """A card by its name, its file, or its size."""
    many = {"GPUMEM_SIM_DEVICES": str(devices)}
    try:
        card = cards.find_or_size(name)
    except (cards.Unknown, cards.NotACard) as error:
        raise UnknownCard(str(error)) from None
    if isinstance(card, int):
        return _of_size(card, name, many)
    least, most, instead = _code(card)
    worse = {**_MOST, **cards.environment(card, "low"), **many, **instead, "GPUMEM_SIM_OTHER_BYTES": str(most)}
    better = {**_LEAST, **cards.environment(card, "high"), **many, **instead, "GPUMEM_SIM_OTHER_BYTES": str(least)}
    total = (card.cuda_total.low, card.cuda_total.high)
    known = "measured" if instead else "assumed"
    return Ends(card.name, os.path.basename(card.name), worse, better, total, (least, most), card.context.source.kind, known)


def _code(card: cards.Card) -> Tuple[int, int, Dict[str, str]]:
    """The memory of kernel code beyond what the simulated card counts, at least and at most; and the settings for
    that. If a program's first tensor was measured, its figure includes all code, and the memory of a cuBLAS handle
    was measured, too."""
    first = card.modules.get("torch-tensor")
    if first is None:
        code = card.modules.get("torch")
        return 0, code.high - code.likely if code else 0, {}
    instead = {"GPUMEM_SIM_MODULE_BYTES": "0"}
    if "cublas" in card.modules:
        instead["GPUMEM_SIM_CUBLAS_BYTES"] = str(card.modules["cublas"].likely)
    more = sum(card.modules[name].high for name in _LATER if name in card.modules)
    return first.low, first.high + more, instead


def _of_size(size: int, name: str, many: Dict[str, str]) -> Ends:
    settings = {**many, **cards.environment(size)}
    return Ends(f"a card of {sizes.text(size)}", name, {**_MOST, **settings}, {**_LEAST, **settings}, (size, size))


def with_memory(card: Ends, size: str) -> Ends:
    """The same card with a different amount of memory."""
    memory = {"GPUMEM_SIM_MEMORY": str(sizes.parse(size))}
    total = (sizes.parse(size),) * 2
    return replace(card, worse={**card.worse, **memory}, better={**card.better, **memory}, total=total)
