"""Which replays answer a question."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from .prices import Price, Prices
from .servers import Replay, Request, Servers
from .settings import WITH_A_FRACTION, WORTH_TRYING, combinations

PAGE = 2 << 20
# The card of a capture that does not say how large it was.
UNKNOWN_CARD = 1 << 40

ALLOCATED, RESERVED = "allocated_bytes.all.peak", "reserved_bytes.all.peak"
CALLS = ("num_device_alloc", "num_device_free")


@dataclass(frozen=True)
class Recorded:
    """A device of a capture."""

    capture: Any
    device: int
    card: int
    settings: str
    # What PyTorch held at most, and of that in blocks.
    reserved: int
    allocated: int
    # The times of calls in the capture.
    prices: Prices = field(compare=False)


@dataclass(frozen=True)
class Result:
    """A device under some settings."""

    recorded: Recorded
    settings: str
    replay: Replay
    # The least card on which nothing fails that did not fail in the recorded run.
    smallest_card: Optional[int] = None

    @property
    def fits(self) -> bool:
        return self.replay.outcome["failed_seq"] == 0

    @property
    def reserved(self) -> int:
        return self.replay.figures[RESERVED]

    @property
    def retries(self) -> int:
        return self.replay.figures["num_alloc_retries"]

    @property
    def calls(self) -> int:
        return sum(self.replay.figures[name] for name in CALLS)

    @property
    def price(self) -> Price:
        return self.recorded.prices.of(self.replay.calls)

    def rank(self) -> Tuple[int, int, int, int]:
        """Less is better: what fits, by the memory and the time that it takes; else what fails last."""
        last = 0 if self.fits else (1 << 64) - self.replay.outcome["failed_seq"]
        return (last, self.reserved, self.retries, self.calls)

    def json(self) -> Dict[str, Any]:
        """As `--format json` has it."""
        outcome, price = self.replay.outcome, self.price
        failure = {
            "event": outcome["failed_seq"],
            "bytes": outcome["failed_bytes"],
            "of": "another library" if outcome["failed_foreign"] else "PyTorch",
            "allocations_before": outcome["allocations"],
            "time_ns": outcome["failed_time"],
            "steps_before": outcome["failed_step"],
        }
        return {
            "settings": self.settings,
            "card_bytes": self.replay.request.card,
            "figures": self.replay.figures,
            "calls": {name: {"succeeded": ok, "failed": failed} for name, (ok, failed) in self.replay.calls.items()},
            "time_in_calls_ns": price.total_ns,
            "calls_without_time": list(price.without_time),
            "failure": None if self.fits else failure,
            "recorded_failures": outcome["recorded_failures"],
            "recorded_failures_saved": outcome["saved"],
            "smallest_card_bytes": self.smallest_card,
        }


def replays(
    servers: Servers, of: Sequence[Recorded], settings: Sequence[str], card: Optional[int], progress: Callable[[float], None]
) -> List[Result]:
    """Every device under all settings."""
    wanted = [(recorded, given) for recorded in of for given in settings]
    requests = [
        Request(recorded.capture, recorded.device, card or recorded.card, given) for recorded, given in wanted
    ]
    done = servers.all(requests, progress)
    return [Result(recorded, given, replay) for (recorded, given), replay in zip(wanted, done)]


def search(
    servers: Servers, of: Sequence[Recorded], own: str, card: Optional[int], progress: Callable[[float], None]
) -> List[Result]:
    """Every device under the settings that often help: each alone, then the best of each kind together, where that is better
    than what was recorded."""
    results = replays(servers, of, [own], card, lambda part: progress(part * 0.1))
    has_fraction = any(result.replay.outcome["fractions"] for result in results)
    kinds = [*WORTH_TRYING, WITH_A_FRACTION] if has_fraction else WORTH_TRYING
    alone = [settings for kind in kinds for settings in kind if settings != own]
    results += replays(servers, of, alone, card, lambda part: progress(0.1 + part * 0.7))
    ranks = {settings: result.rank() for settings, result in worst(results).items()}
    best = [min(kind, key=lambda settings: ranks[settings]) for kind in kinds]
    together = combinations([settings for settings in best if ranks[settings] < ranks[own]])
    together = [settings for settings in together if settings not in ranks]
    return results + replays(servers, of, together, card, lambda part: progress(0.8 + part * 0.2))


def worst(results: Sequence[Result]) -> Dict[str, Result]:
    """By settings: of many devices and ranks the worst decides."""
    by_settings: Dict[str, List[Result]] = {}
    for result in results:
        by_settings.setdefault(result.settings, []).append(result)
    return {settings: max(of, key=Result.rank) for settings, of in by_settings.items()}


def smallest_cards(servers: Servers, results: Sequence[Result], progress: Callable[[float], None]) -> List[Result]:
    """The results with the least card of each, found by replays on smaller and smaller ones."""
    below: List[int] = []
    above: List[Optional[int]] = []
    for result in results:
        outcome, figures = result.replay.outcome, result.replay.figures
        least = max(figures[ALLOCATED], outcome["foreign_peak"]) // PAGE * PAGE
        below.append(max(least - PAGE, 0))
        enough = up(figures[RESERVED] + outcome["foreign_peak"])
        # The share of the card that the program may hold is one of another card.
        top = result.replay.request.card // PAGE * PAGE if outcome["fractions"] else enough
        above.append(top if result.fits else None)
    rounds, most = 0, max(((top or 0) - low).bit_length() for low, top in zip(below, above)) if results else 0
    while True:
        open_ = [n for n, top in enumerate(above) if top is not None and top - below[n] > PAGE]
        if not open_:
            break
        middles = {n: (below[n] + (above[n] or 0)) // 2 // PAGE * PAGE for n in open_}
        requests = [
            Request(results[n].recorded.capture, results[n].recorded.device, middle, results[n].settings)
            for n, middle in middles.items()
        ]
        start = rounds / max(most - PAGE.bit_length() + 1, rounds + 1)
        done = servers.all(requests, lambda of, start=start: progress(min(start + of / 16, 1.0)))  # type: ignore[misc]
        for (n, middle), replay in zip(middles.items(), done):
            if replay.outcome["failed_seq"] == 0:
                above[n] = middle
            else:
                below[n] = middle
        rounds += 1
    return [Result(r.recorded, r.settings, r.replay, top) for r, top in zip(results, above)]


def up(size: int) -> int:
    """To what a card gives memory in."""
    return -(-size // PAGE) * PAGE
