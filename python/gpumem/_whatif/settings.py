"""Settings of PyTorch's allocator that are worth trying, and their disadvantages.

From https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf. The list
excludes settings that do not change device memory (`pinned_*`), and `backend:cudaMallocAsync`, a different allocator
that is not modelled."""

from __future__ import annotations

import itertools
from typing import List, Sequence

# Values of each setting that are tried alone. Those that help are then combined.
WORTH_TRYING = (
    ("expandable_segments:True",),
    tuple(f"max_split_size_mb:{size}" for size in (32, 64, 128, 256, 512)),
    tuple(f"roundup_power2_divisions:{parts}" for parts in (4, 8, 16)),
)
# Settings that only have an effect if the program may use only a share of the card.
WITH_A_FRACTION = tuple(f"garbage_collection_threshold:{share}" for share in (0.6, 0.8))


def combinations(best: Sequence[str]) -> List[str]:
    """Combinations of settings of different kinds, from the best of each."""
    sizes = range(2, len(best) + 1)
    return [",".join(some) for size in sizes for some in itertools.combinations(best, size)]


_RISKS = {
    "expandable_segments": "memory is mapped in parts: sharing tensors between processes needs PyTorch 2.5 or later on both sides",
    "max_split_size_mb": "large cached blocks are not reused for smaller requests: more calls of CUDA where sizes vary",
    "roundup_power2_divisions": "every block can be larger than requested",
    "garbage_collection_threshold": "unused blocks are freed before memory runs out: more calls of CUDA",
}


def risks(settings: str) -> List[str]:
    """Possible disadvantages of these settings."""
    return [text for name, text in _RISKS.items() if name in settings]


def name(settings: str) -> str:
    """The settings as shown in a table."""
    return settings or "(default)"
