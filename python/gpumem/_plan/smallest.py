"""The smallest card on which a program works."""

from __future__ import annotations

from .._whatif.captures import devices_of, python_for
from .._whatif.search import replays, smallest_cards
from .._whatif.servers import Failed as NotReplayed
from .._whatif.servers import Servers
from .dry_run import Failed, Run


def card_of(run: Run, jobs: int) -> int:
    """Bytes, to 2 MiB: by replays of what PyTorch's allocator did, with all else that was on the card. Of many GPUs and processes the
    one that needs most."""
    needed = [(capture, summary) for capture, summary in zip(run.captures, run.summaries) if summary["devices"]]
    try:
        devices = [device for capture, summary in needed for device in devices_of(capture, summary, None)]
        with Servers(python_for(None, needed[0][1]), jobs) as servers:
            results = replays(servers, devices, [devices[0].settings], None, lambda _: None)
            found = smallest_cards(servers, results, lambda _: None)
    except NotReplayed as error:
        raise Failed(str(error)) from None
    return max(cards[1] for result in found if (cards := result.smallest_cards))
