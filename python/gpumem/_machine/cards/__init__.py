"""Cards: the memory of each, the costs of a process before its first tensor, and their accuracy.

    from gpumem._machine import cards

    card = cards.find("h100")              # or a file: cards.find("./mine.json")
    card.cuda_total.likely, card.context.high, card.sms
    cards.environment(card)                # variables that give the simulated card its properties

One JSON file describes a card (docs/cards.md). `gpumem card measure` writes one."""

from .card import Card, Figure, NotACard, Source, load
from .finding import Unknown, find, find_or_size, known
from .simulated import environment

__all__ = ["Card", "Figure", "NotACard", "Source", "Unknown", "environment", "find", "find_or_size", "known", "load"]
