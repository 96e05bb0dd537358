"""Selects the replays for a request."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, cast

from .._text.sizes import Span
from .form import Calls, Figures, FirstFailure, ReplayRow
from .prices import Price, Prices
from .servers import Replay, Request, Servers
from .settings import WITH_A_FRACTION, WORTH_TRYING, combinations
from .unknown import variants

PAGE = 2 << 20
# The card of a capture without the card's size.
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
    # The peak of PyTorch's reserved bytes, and of its allocated bytes.
    reserved: int
    allocated: int
    # The times of calls in the capture.
    prices: Prices = field(default_factory=lambda: Prices([]), compare=False)


@dataclass(frozen=True)
class Result:
    """A device with some settings."""

    recorded: Recorded
    settings: str
    # One replay, or one for each assumption about what the capture does not record.
    replays: Tuple[Replay, ...]

    @property
    def replay(self) -> Replay:
        """The worst one."""
        return max(self.replays, key=rank)

    @property
    def fits(self) -> bool:
        return all(replay.fits for replay in self.replays)

    @property
    def is_unclear(self) -> bool:
        """Whether it is uncertain that it fits."""
        return len({replay.fits for replay in self.replays}) > 1

    @property
    def stopped(self) -> bool:
        return any(replay.stopped for replay in self.replays)

    @property
    def reserved(self) -> int:
        return self.replay.figures[RESERVED]

    @property
    def saved(self) -> int:
        return min(replay.outcome["saved"] for replay in self.replays)

    @property
    def smallest_cards(self) -> Optional[Span]:
        """The smallest and the largest estimate; None if a replay does not fit the existing card."""
        cards = [card for replay in self.replays if (card := replay.smallest_card)]
        return (min(cards), max(cards)) if len(cards) == len(self.replays) else None

    @property
    def price_span(self) -> Optional[Span]:
        """The shortest and the longest time of the calls; None if a time is missing."""
        times = [self.recorded.prices.of(replay.calls).total_ns for replay in self.replays]
        known = [time for time in times if time is not None]
        return (min(known), max(known)) if len(known) == len(times) else None

    @property
    def price(self) -> Price:
        return self.recorded.prices.of(self.replay.calls)

    def rank(self) -> Tuple[int, int, int, int]:
        return rank(self.replay)

    def span(self, of: Callable[[Replay], int]) -> Span:
        """The lowest and the highest value of a figure."""
        figures = [of(replay) for replay in self.replays]
        return min(figures), max(figures)

    def against(self, own: Result) -> Span:
        """The least and the greatest change of reserved bytes relative to the recorded settings, for equal
        assumptions."""
        was = {replay.request.assumed: replay.figures[RESERVED] for replay in own.replays}
        return self.span(lambda replay: replay.figures[RESERVED] - was.get(replay.request.assumed, own.reserved))

    def json(self, saved: Optional[str] = None) -> ReplayRow:
        """The row for `--format json`. `saved`: the capture of the replay."""
        outcome, figures, cards = self.replay.outcome, self.replay.figures, self.smallest_cards
        spans = {name: self.span(lambda replay, name=name: replay.figures[name]) for name in figures}  # type: ignore[misc]
        price = self.price
        failure: FirstFailure = {
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
            "figures": cast(Figures, figures),
            "figures_least": cast(Figures, {name: least for name, (least, _) in spans.items()}),
            "figures_greatest": cast(Figures, {name: greatest for name, (_, greatest) in spans.items()}),
            "fits": None if self.is_unclear else self.fits,
            "calls": cast(Calls, {name: {"succeeded": ok, "failed": failed} for name, (ok, failed) in self.replay.calls.items()}),
            "time_in_calls_ns": price.total_ns,
            "calls_without_time": list(price.without_time),
            "failure": None if self.fits else failure,
            "recorded_failures": outcome["recorded_failures"],
            "recorded_failures_saved": self.saved,
            "smallest_card_bytes": cards and cards[1],
            "smallest_card_least_bytes": cards and cards[0],
            "replays": len(self.replays),
            "stopped_at_event": max(replay.outcome["stopped_seq"] for replay in self.replays) or None,
            "saved": saved,
        }


def reserved(replay: Replay) -> int:
    return replay.figures[RESERVED]


def retries(replay: Replay) -> int:
    return replay.figures["num_alloc_retries"]


def calls(replay: Replay) -> int:
    return sum(replay.figures[name] for name in CALLS)


def rank(replay: Replay) -> Tuple[int, int, int, int]:
    """Less is better: replays that fit, by their memory and time; then those that fail last."""
    last = 0 if replay.fits else (1 << 64) - replay.outcome["failed_seq"]
    return (last, reserved(replay), retries(replay), calls(replay))


def all_ways(
    servers: Servers, requests: Sequence[Request], progress: Optional[Callable[[float], None]] = None
) -> List[Tuple[Replay, ...]]:
    """The replays of each request, including those with other assumptions about what the capture does not record."""
    first = servers.all(requests, progress)
    others = [[replace(replay.request, assumed=of) for of in variants(replay)] for replay in first]
    more = iter(servers.all([request for some in others for request in some], progress))
    return [(replay, *(next(more) for _ in some)) for replay, some in zip(first, others)]


def replays(
    servers: Servers, of: Sequence[Recorded], settings: Sequence[str], card: Optional[int], progress: Callable[[float], None],
    most_reserved: int = 0,
) -> List[Result]:
    """Every device with all settings. A replay that reserves more than the maximum, if there is one, is stopped."""
    wanted = [(recorded, given) for recorded in of for given in settings]
    requests = [
        Request(recorded.capture, recorded.device, card or recorded.card, given, most_reserved=most_reserved)
        for recorded, given in wanted
    ]
    done = all_ways(servers, requests, progress)
    return [Result(recorded, given, of) for (recorded, given), of in zip(wanted, done)]


def search(
    servers: Servers, of: Sequence[Recorded], own: str, card: Optional[int], progress: Callable[[float], None], whole: bool = False
) -> List[Result]:
    """Every device with the settings that often help: each alone, then combinations of the best of each kind, if they
    are better than the recorded ones. Replays that cannot be better are stopped, unless the whole is wanted."""
    results = replays(servers, of, [own], card, lambda part: progress(part * 0.1))
    # If an allocation fails, more reserved memory may help.
    fails = any(not result.fits or result.replay.outcome["recorded_failures"] for result in results)
    most = 0 if whole or fails else max(result.reserved for result in results)
    has_fraction = any(result.replay.outcome["fractions"] for result in results)
    kinds = [*WORTH_TRYING, WITH_A_FRACTION] if has_fraction else WORTH_TRYING
    alone = [settings for kind in kinds for settings in kind if settings != own]
    results += replays(servers, of, alone, card, lambda part: progress(0.1 + part * 0.7), most)
    ranks = {settings: result.rank() for settings, result in worst(results).items()}
    best = [min(kind, key=lambda settings: ranks[settings]) for kind in kinds]
    together = combinations([settings for settings in best if ranks[settings] < ranks[own]])
    together = [settings for settings in together if settings not in ranks]
    return results + replays(servers, of, together, card, lambda part: progress(0.8 + part * 0.2), most)


def worst(results: Sequence[Result]) -> Dict[str, Result]:
    """By settings: the worst of several devices and ranks decides."""
    by_settings: Dict[str, List[Result]] = {}
    for result in results:
        by_settings.setdefault(result.settings, []).append(result)
    return {settings: max(of, key=Result.rank) for settings, of in by_settings.items()}


def smallest_cards(servers: Servers, results: Sequence[Result], progress: Callable[[float], None]) -> List[Result]:
    """The results with the smallest card of each, found by replays on smaller and smaller cards."""
    below: List[int] = []
    above: List[Optional[int]] = []
    of = [replay for result in results for replay in result.replays]
    for replay in of:
        outcome, figures = replay.outcome, replay.figures
        least = max(figures[ALLOCATED], outcome["foreign_peak"]) // PAGE * PAGE
        below.append(max(least - PAGE, 0))
        enough = up(figures[RESERVED] + outcome["foreign_peak"])
        # If the program may use only a share of the card, the limit depends on the card's size.
        top = replay.request.card // PAGE * PAGE if outcome["fractions"] else enough
        above.append(top if replay.fits else None)
    rounds, most = 0, max(((top or 0) - low).bit_length() for low, top in zip(below, above)) if of else 0
    while True:
        open_ = [n for n, top in enumerate(above) if top is not None and top - below[n] > PAGE]
        if not open_:
            break
        middles = {n: (below[n] + (above[n] or 0)) // 2 // PAGE * PAGE for n in open_}
        requests = [replace(of[n].request, card=middle) for n, middle in middles.items()]
        start = rounds / max(most - PAGE.bit_length() + 1, rounds + 1)
        done = servers.all(requests, lambda part, start=start: progress(min(start + part / 16, 1.0)))  # type: ignore[misc]
        for (n, middle), replay in zip(middles.items(), done):
            if replay.fits:
                above[n] = middle
            else:
                below[n] = middle
        rounds += 1
    found = (replace(replay, smallest_card=top) for replay, top in zip(of, above))
    return [replace(result, replays=tuple(next(found) for _ in result.replays)) for result in results]


def up(size: int) -> int:
    """Rounds up to the card's page size."""
    return -(-size // PAGE) * PAGE
