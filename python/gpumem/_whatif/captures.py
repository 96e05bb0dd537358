"""The parts of captures that can be replayed, and the Python for the replay."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional

from .prices import Prices
from .search import UNKNOWN_CARD, Recorded
from .servers import Failed


def devices_of(capture: Path, summary: Dict[str, Any], only: Optional[int]) -> List[Recorded]:
    pytorch = summary["process"].get("pytorch") or {}
    settings, allocator = pytorch.get("allocator_settings") or "", pytorch.get("allocator")
    if allocator not in (None, "native"):
        raise Failed(f"{capture} is of {allocator}, which is not modelled: only PyTorch's own caching allocator is replayed")
    prices = Prices(summary["calls"])
    found = [
        Recorded(
            capture, device["ordinal"], _size_of(device), settings, device["reserved"]["peak_bytes"],
            device["tensor"]["peak_bytes"], prices,
        )
        for device in summary["devices"]
        if device["tensor"]["allocations"] and only in (None, device["ordinal"])
    ]  # fmt: skip
    if not found:
        which = "" if only is None else f" of GPU {only}"
        raise Failed(f"{capture} has no PyTorch tensors{which}: a replay is not possible")
    return found


def _size_of(device: Dict[str, Any]) -> int:
    """The memory of a recorded card. If it is unknown: the memory that PyTorch had when it failed,
    or more than any card has."""
    known = device.get("limit_bytes") or device["total_bytes"] or device.get("allocator_room_bytes")
    return int(known or UNKNOWN_CARD)


def python_for(named: Optional[str], summary: Dict[str, Any]) -> str:
    """The Python for replays."""
    if named:
        return named
    if importlib.util.find_spec("torch"):
        return sys.executable
    recorded = (summary["process"].get("command") or "").split(" ")[0]
    found = shutil.which(recorded) if "python" in os.path.basename(recorded) else None
    if found:
        return found
    raise Failed("neither this Python nor the recorded one has PyTorch: name one with --python")
