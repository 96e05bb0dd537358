"""Cards: what CUDA gives of each, what a process costs before its first tensor, and how well that is known.

    from gpumem import _cards

    card = _cards.find("h100")              # or a file: _cards.find("./mine.json")
    card.cuda_total.likely, card.context.high, card.sms
    _cards.environment(card)                # what makes the simulated card look like it

One JSON file describes a card (docs/cards.md). `gpumem card measure` writes one."""

from .card import Card, Figure, NotACard, Source, load
from .finding import Unknown, find, known
from .simulated import environment

__all__ = ["Card", "Figure", "NotACard", "Source", "Unknown", "environment", "find", "known", "load"]
