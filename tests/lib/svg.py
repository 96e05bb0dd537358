"""Reads an inferno flamegraph: each box with its depth, position and width."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

SVG = "{http://www.w3.org/2000/svg}"
FLAMEGRAPH = "{http://github.com/jonhoo/inferno}"


@dataclass(frozen=True)
class Box:
    """A frame: the width and the position are in the flamegraph's unit (bytes). The label is the text that fits into
    the box before a browser adjusts it; the kind is the box's class."""

    title: str
    start: int
    width: int
    depth: float
    colour: str = ""
    label: str = ""
    kind: str = ""


def boxes(path: Path) -> list[Box]:
    """All boxes of a flamegraph, the root first."""
    found = []
    for group in ElementTree.parse(path).getroot().iter(f"{SVG}g"):
        title, rectangle = group.find(f"{SVG}title"), group.find(f"{SVG}rect")
        if title is None or rectangle is None or f"{FLAMEGRAPH}w" not in rectangle.keys():
            continue
        found.append(
            Box(
                title.text or "",
                int(rectangle.get(f"{FLAMEGRAPH}x")),
                int(rectangle.get(f"{FLAMEGRAPH}w")),
                float(rectangle.get("y")),
                rectangle.get("fill"),
                group.find(f"{SVG}text").text or "",
                group.get("class"),
            )
        )
    found.sort(key=lambda box: (-box.width, box.start))
    return found


def bytes_in_title(title: str) -> int:
    """The exact figure in `name (1.21 KiB = 1,234 bytes, 5.7 %, 2 blocks)`."""
    figures = title[title.rindex("(") :]
    return int(re.search(r"([\d,]+) bytes", figures)[1].replace(",", ""))


def own_widths(all_boxes: list[Box]) -> list[int]:
    """What each box holds itself: its width less that of the boxes that stand on it (flames grow
    upwards, so a child's y is the next smaller one). None may be negative, and they sum to the root's
    width if nothing is drawn twice or left out."""
    rows: dict[float, list[Box]] = {}
    for box in all_boxes:
        rows.setdefault(box.depth, []).append(box)
    heights = sorted(rows)
    above = dict(zip(heights[1:], heights))
    return [
        box.width
        - sum(
            child.width
            for child in rows.get(above.get(box.depth), [])
            if box.start <= child.start < box.start + box.width
        )
        for box in all_boxes
    ]
