"""Finds the largest number with which a program fits."""

from __future__ import annotations

from typing import Callable, NamedTuple, Optional, Sequence, Tuple

PLACE = "{}"


class Found(NamedTuple):
    """The largest number that fits; None if the smallest one does not fit."""

    number: Optional[int]


class NotARange(ValueError):
    """The text is not LOW..HIGH."""


def bounds(text: str) -> Tuple[int, int]:
    """Parses LOW..HIGH, both included."""
    low, dots, high = text.partition("..")
    try:
        numbers = int(low), int(high)
    except ValueError:
        numbers = (0, -1)
    if not dots or numbers[0] > numbers[1] or numbers[0] < 0:
        raise NotARange(f"{text!r} is not a range: write the least and the greatest, as in 1..512")
    return numbers


def filled(words: Sequence[str], template: str, number: int) -> Sequence[str]:
    """The program's words and the template's. `{}` is replaced in both."""
    added = template.replace(PLACE, str(number)).split()
    return [*(word.replace(PLACE, str(number)) for word in words), *added]


def largest(low: int, high: int, fits: Callable[[int], bool]) -> Optional[int]:
    """The largest number of low..high that fits; None if the smallest one does not fit. The search first
    doubles the number and then bisects, because small numbers are fast to try."""
    if not fits(low):
        return None
    good, step = low, 1
    while good < high:
        trial = min(good + step, high)
        if not fits(trial):
            break
        good, step = trial, step * 2
    else:
        return good
    bad = trial
    while bad - good > 1:
        middle = (good + bad) // 2
        if fits(middle):
            good = middle
        else:
            bad = middle
    return good
