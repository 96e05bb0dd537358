"""Results of replays of a run's own allocations: the smallest card, and the best settings of PyTorch's allocator."""

from __future__ import annotations

from dataclasses import replace
from typing import List, Optional

from .._whatif.captures import devices_of, python_for
from .._whatif.search import PAGE, Recorded, replays, search, smallest_cards, worst
from .._whatif.servers import Failed as NotReplayed, Servers
from .dry_run import Failed, Run

# A run near the limit must also work on cards that are smaller by this many pages of 2 MiB.
_FEWER = range(1, 17)
LESS = _FEWER[-1] * PAGE


def card_of(run: Run, jobs: int) -> int:
    """The size of the smallest card, in steps of 2 MiB, with everything else that was on the card. Of several GPUs and
    processes, the one that needs most."""
    try:
        devices = _devices(run)
        with _servers(run, jobs) as servers:
            results = replays(servers, devices, [devices[0].settings], None, lambda _: None)
            found = smallest_cards(servers, results, lambda _: None)
    except NotReplayed as error:
        raise Failed(str(error)) from None
    return max(cards[1] for result in found if (cards := result.smallest_cards))


def holds(run: Run, jobs: int) -> bool:
    """Whether a run in which PyTorch had to empty its cache also works with slightly less memory. If not, it depends on
    the addresses of blocks, and so on the order in which threads free them: another run of the same program can
    fail."""
    try:
        devices = _devices(run)
        smaller = [replace(device, card=device.card - pages * PAGE) for device in devices for pages in _FEWER]
        with _servers(run, jobs) as servers:
            return all(result.fits for result in replays(servers, smaller, [devices[0].settings], None, lambda _: None))
    except NotReplayed:
        return False


def settings_of(run: Run, jobs: int) -> Optional[str]:
    """Settings with which a run that ran out of memory would have continued longer; None if no such settings are
    known."""
    try:
        devices = _devices(run)
        own = devices[0].settings
        with _servers(run, jobs) as servers:
            ranks = {settings: result.rank() for settings, result in worst(search(servers, devices, own, None, lambda _: None)).items()}
    except NotReplayed:
        return None
    best = min(ranks, key=lambda settings: ranks[settings])
    return best if ranks[best] < ranks[own] else None


def _devices(run: Run) -> List[Recorded]:
    used = [(capture, summary) for capture, summary in zip(run.captures, run.summaries) if summary["devices"]]
    return [device for capture, summary in used for device in devices_of(capture, summary, None)]


def _servers(run: Run, jobs: int) -> Servers:
    return Servers(python_for(None, next(summary for summary in run.summaries if summary["devices"])), jobs)
