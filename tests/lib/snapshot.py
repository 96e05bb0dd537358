"""Facts from a PyTorch snapshot, computed from the snapshot alone."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path


def is_user_code(file: str) -> bool:
    if file.startswith("<"):
        return file.startswith(("<stdin>", "<string>", "<ipython-input"))
    return not any(part in file for part in ("/site-packages/", "/dist-packages/", "/lib/python"))


def owner(frames: list[dict]):
    """File and line of the newest frame of the user's own code, otherwise of the newest Python frame; `None` without
    Python."""
    python = [frame for frame in frames if frame["filename"].endswith(".py") or frame["filename"].startswith("<")]
    for frame in python:
        if is_user_code(frame["filename"]):
            return frame["filename"], frame["line"]
    return (python[0]["filename"], python[0]["line"]) if python else None


def load(path: Path) -> dict:
    with open(path, "rb") as file:
        snapshot = pickle.load(file)
    if isinstance(snapshot, list):
        snapshot = {"segments": snapshot, "device_traces": []}
    return snapshot


def in_use(snapshot: dict):
    """Blocks of tensors: address, requested bytes, reserved bytes, frames."""
    for segment in snapshot["segments"]:
        address = segment["address"]
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                asked = block.get("requested_size", block["size"])
                yield address, asked, block["size"], block.get("frames", [])
            address += block["size"]


def lines_at_the_end(snapshot: dict, rounded: bool = False) -> Counter:
    """Bytes by owner."""
    lines = Counter()
    for _, asked, size, frames in in_use(snapshot):
        lines[owner(frames)] += size if rounded else asked
    return lines


def replayed(snapshot: dict, device: int = 0) -> tuple[int, int]:
    """Greatest and last bytes of tensors, of the trace alone and what was there before it."""
    trace = snapshot["device_traces"][device] if snapshot["device_traces"] else []
    first = {}
    for entry in trace:
        if entry["action"] in ("alloc", "free_requested", "free_completed"):
            first.setdefault(entry["addr"], entry)
    blocks = {entry["addr"]: entry["size"] for entry in first.values() if entry["action"] != "alloc"}
    blocks.update((address, asked) for address, asked, _, _ in in_use(snapshot) if address not in first)
    live = peak = sum(blocks.values())
    for entry in trace:
        if entry["action"] == "alloc":
            blocks[entry["addr"]] = entry["size"]
            live += entry["size"]
        elif entry["action"] in ("free_requested", "free_completed"):
            live -= blocks.pop(entry["addr"], 0)
        peak = max(peak, live)
    return peak, live
