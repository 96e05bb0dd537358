"""What a capture may not say, and the replays that stand for it: one for each way in which it may have been."""

from __future__ import annotations

import itertools
from typing import List

from .servers import Replay

# What a replay assumes; as in whatif/src/assumed.rs. Without: blocks were asked for in the sizes that they had, and blocks
# that waited for other streams were back at once.
LEAST, LATE = 1, 2
# The other way round: streams without a known number have others that stand in for them.
OTHER_STREAMS = 4
# What a capture has is not used, to see what a replay can do without it.
NO_REQUESTS, NO_RELEASES, NO_USES = 1 << 8, 1 << 9, 1 << 10

# What a replay counts that it does not know, and what else it may have been.
_OTHERWISE = {"sizes_unknown": LEAST, "waits_unknown": LATE, "stand_ins": OTHER_STREAMS}


def variants(replay: Replay) -> List[int]:
    """What else than in this replay can be assumed of what it did not know: all combinations."""
    kinds = [kind for what, kind in _OTHERWISE.items() if replay.outcome[what]]
    sizes = range(1, len(kinds) + 1)
    return [replay.request.assumed + sum(some) for size in sizes for some in itertools.combinations(kinds, size)]
