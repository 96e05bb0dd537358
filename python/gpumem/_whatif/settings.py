"""Settings of PyTorch's allocator that are worth trying, and what each may cost.

From https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf. Left out is
what does not change device memory (`pinned_*`), what acts only with a memory fraction (`garbage_collection_threshold`, unless
the program has set one), and `backend:cudaMallocAsync`, which is another allocator: it is not modelled."""

from __future__ import annotations

from typing import List

# In the order of what usually helps.
WORTH_TRYING = (
    "expandable_segments:True",
    "max_split_size_mb:32",
    "max_split_size_mb:64",
    "max_split_size_mb:128",
    "max_split_size_mb:256",
    "max_split_size_mb:512",
    "roundup_power2_divisions:4",
    "roundup_power2_divisions:8",
    "roundup_power2_divisions:16",
    "expandable_segments:True,roundup_power2_divisions:8",
    "max_split_size_mb:128,roundup_power2_divisions:8",
)

_RISKS = {
    "expandable_segments": "maps memory piece by piece: sharing tensors between processes needs PyTorch 2.5 or later on both sides",
    "max_split_size_mb": "large cached blocks are not reused for smaller requests: more calls of CUDA where sizes vary",
    "roundup_power2_divisions": "every block may be larger than what was asked for",
    "garbage_collection_threshold": "unused blocks are given back before memory is wanting: more calls of CUDA",
}


def risks(settings: str) -> List[str]:
    """What may be worse under these settings."""
    return [text for name, text in _RISKS.items() if name in settings]


def name(settings: str) -> str:
    """The settings as a table has them."""
    return settings or "(default)"
