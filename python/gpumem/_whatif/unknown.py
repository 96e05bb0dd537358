"""Quantities that a capture may not record, and the replays for each possible assumption about them."""

from __future__ import annotations

import itertools
from typing import List

from .servers import Replay

# Assumptions of a replay, as in whatif/src/assumed.rs. By default, blocks were requested with the sizes that
# they had, and blocks that waited for other streams were available at once.
LEAST, LATE = 1, 2
# Streams without a known number are replaced in the opposite order.
OTHER_STREAMS = 4
# Recorded data that is ignored, to test replays without it.
NO_REQUESTS, NO_RELEASES, NO_USES = 1 << 8, 1 << 9, 1 << 10

# Unknown quantities that a replay counts, with the alternative assumption for each.
_OTHERWISE = {"sizes_unknown": LEAST, "waits_unknown": LATE, "stand_ins": OTHER_STREAMS}


def variants(replay: Replay) -> List[int]:
    """The alternative assumptions for what was unknown in this replay: all combinations."""
    kinds = [kind for what, kind in _OTHERWISE.items() if replay.outcome[what]]
    sizes = range(1, len(kinds) + 1)
    return [replay.request.assumed + sum(some) for size in sizes for some in itertools.combinations(kinds, size)]
