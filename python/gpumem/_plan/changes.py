"""Changes that may make a program fit. Each is tried in a separate run."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

_BATCH = re.compile(r"--?(?:[a-z_-]*batch[a-z_-]*|bs|b)", re.IGNORECASE)
# The names of inside/change.py, and what a person would write.
_INSIDE = (
    ("checkpoint", "torch.utils.checkpoint for the repeated blocks"),
    ("autocast", "torch.autocast with bfloat16"),
    ("adafactor", "Adafactor instead of Adam"),
    ("offload", "saved activations in host memory (torch.autograd.graph.save_on_cpu)"),
)


@dataclass(frozen=True)
class Change:
    """A change: its description, and the command and environment for it."""

    text: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    # A change of inside/change.py; None: no change inside the program.
    inside: Optional[str] = None


def smaller_batches(command: Sequence[str]) -> Iterator[Change]:
    """With half of the batch size on the command line, a quarter, and so on down to 1."""
    for place, word in enumerate(command):
        name, equals, value = word.partition("=")
        if not _BATCH.fullmatch(name):
            continue
        if not equals:
            value = command[place + 1] if place + 1 < len(command) else ""
        if not value.isdecimal():
            continue
        number = int(value) // 2
        while number:
            words = list(command)
            words[place if equals else place + 1] = f"{name}={number}" if equals else str(number)
            yield Change(f"{name} {number} ({name} {value} by accumulating gradients)", words)
            number //= 2
        return


def others(command: Sequence[str], settings: Optional[str]) -> List[Change]:
    """All changes except the batch size; `settings` are the allocator's."""
    names = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
    changed = [Change(f"PYTORCH_CUDA_ALLOC_CONF={settings}", command, dict.fromkeys(names, settings))] if settings else []
    return changed + [Change(text, command, inside=name) for name, text in _INSIDE]


def environment_of(change: Change) -> Tuple[Dict[str, str], List[str]]:
    """The variables for the program, and the parts inside it."""
    changes, parts = dict(change.environment), []
    if change.inside:
        changes["GPUMEM_PLAN_CHANGE"] = change.inside
        parts.append("change")
    return changes, parts
