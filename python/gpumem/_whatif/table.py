"""The table of `gpumem whatif`."""

from __future__ import annotations

from typing import Dict, List, Optional

from .._text import sizes
from .._text.sizes import Span, to
from .prices import duration
from .search import Result, calls, reserved, retries
from .settings import name

WIDTH = 79

# The smallest card for each setting; None if the existing card is not enough.
Cards = Dict[str, Optional[Span]]


def enough(least: Cards, result: Result) -> int:
    """The memory that is enough for all replays."""
    card = least.get(result.settings)
    return card[1] if card else 1 << 64


def table(own: Result, by_settings: Dict[str, Result], least: Cards) -> List[str]:
    """A line for each setting, the best first. `least`: the smallest cards, if they were requested."""
    prices = {settings: result.price_span for settings, result in by_settings.items()}
    is_priced = any(prices.values())
    heads = ["reserved", "change", "CUDA calls"] + (["time in calls"] if is_priced else []) + ["retries"]
    heads += ["smallest card"] if least else []
    rows = []
    for result in sorted(by_settings.values(), key=lambda r: (enough(least, r), r.rank())):
        if result.stopped:
            # Its other figures cover only a part of the run.
            rows.append((" " + name(result.settings), [f"> {sizes.text(own.reserved)}", *[""] * (len(heads) - 1)]))
            continue
        if result.fits:
            change = result.against(own) if own.fits else (0, 0)
            cells = [to(result.span(reserved)), to(change, sizes.change) if any(change) else ""]
        elif result.is_unclear:
            cells = ["too close to say", ""]
        else:
            cells = [f"fails at {result.replay.outcome['failed_seq']:,}", ""]
        cells.append(to(result.span(calls), "{:,}".format))
        if is_priced:
            price = prices[result.settings]
            cells.append(to(price, duration) if price else "")
        cells.append(to(result.span(retries), "{:,}".format))
        if least:
            card = least[result.settings]
            cells.append(to(card) if card else "")
        mark = "*" if result is own else " "
        rows.append((mark + name(result.settings), cells))
    lines = _aligned(heads, rows) + ["* as recorded"]
    if any(result.stopped for result in by_settings.values()):
        lines.append("> as recorded: not replayed to the end, because it cannot be better (see --conf)")
    if is_priced:
        lines.append("time in calls: the replay's calls × the mean time of such a call in the capture")
    return lines


def _aligned(heads: List[str], rows: List[tuple[str, List[str]]]) -> List[str]:
    widths = [max(len(head), *(len(cells[n]) for _, cells in rows)) for n, head in enumerate(heads)]
    room = WIDTH - sum(width + 2 for width in widths)
    lines = [" settings".ljust(room) + "".join("  " + head.rjust(width) for head, width in zip(heads, widths))]
    for label, cells in rows:
        figures = "".join("  " + cell.rjust(width) for cell, width in zip(cells, widths))
        if len(label) > room:
            lines.append(label)
            label = ""
        lines.append((label.ljust(room) + figures).rstrip())
    return lines


def without_time(by_settings: Dict[str, Result]) -> List[str]:
    """Why cells are empty: calls without a time in a capture, one line for each capture."""
    missing: Dict[str, List[str]] = {}
    for result in by_settings.values():
        recorded = result.recorded
        of = missing.setdefault(str(recorded.capture), [])
        of += [call for call in result.price.without_time if call not in of] if recorded.prices else []
    lines = []
    for capture in dict.fromkeys(str(result.recorded.capture) for result in by_settings.values()):
        if not any(result.recorded.prices for result in by_settings.values() if str(result.recorded.capture) == capture):
            lines.append(f"no time in calls: {capture} has no times of calls")
        elif missing[capture]:
            lines.append(f"no time in calls where the cell is empty: {capture} has no time of {', '.join(missing[capture])}")
    return lines
