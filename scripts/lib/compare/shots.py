"""Takes pictures of parts of a page in a headless browser."""

from __future__ import annotations

import base64
import contextlib
import io
import time
from collections.abc import Iterator
from pathlib import Path

import browser
from PIL import Image

# The limit for one picture, and for all together, because docs are read over networks.
MOST_BYTES = 150_000


@contextlib.contextmanager
def window(width: int = 1280, height: int = 900, scheme: str = "light") -> Iterator[browser.Browser]:
    """A browser window of that size, which is closed afterwards."""
    shown = browser.Browser(browser.find(), width=width, height=height)
    try:
        shown.resize(width, height)
        shown.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        yield shown
    finally:
        shown.close()


def settle(shown: browser.Browser) -> None:
    """Waits until two frames are drawn."""
    shown.tell("globalThis.drawn = 0; requestAnimationFrame(() => requestAnimationFrame(() => { globalThis.drawn = 1; })); undefined")
    shown.wait("globalThis.drawn === 1")


def take(shown: browser.Browser, path: Path, clip: tuple[float, float, float, float] | None = None) -> None:
    """Takes a picture of a part of the page: x, y, width and height; without `clip`, of the window."""
    settle(shown)
    options = {}
    if clip:
        x, y, width, height = clip
        options = {"clip": {"x": x, "y": y, "width": width, "height": height, "scale": 1}, "captureBeyondViewport": True}
    shot = shown.call("Page.captureScreenshot", format="png", **options)
    data = smaller(base64.b64decode(shot["data"]))
    if len(data) > MOST_BYTES:
        raise SystemExit(f"{path}: {len(data):,} bytes, more than {MOST_BYTES:,}")
    path.write_bytes(data)
    print(f"{path.name}: {len(data):,} bytes", flush=True)


def smaller(png: bytes) -> bytes:
    """The same picture with a palette of 256 colours, which is enough for text and charts."""
    out = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
    return min(out.getvalue(), png, key=len)


def part(shown: browser.Browser, *selectors: str, most: float = 1000) -> tuple[float, float, float, float]:
    """The page's width, from the top of the first of these elements to the end of the last one, limited to a
    height."""
    boxes = [
        shown.tell(
            f"(() => {{ const b = document.querySelector({of!r}).getBoundingClientRect();"
            " return [b.top + scrollY, b.bottom + scrollY]; })()"
        )
        for of in selectors
    ]
    top = max(0, min(box[0] for box in boxes) - 8)
    bottom = max(box[1] for box in boxes) + 8
    return (0, top, shown.tell("innerWidth"), min(bottom - top, most))


def until(shown: browser.Browser, expression: str, seconds: float) -> float | None:
    """The time until an expression is true in the page; None: it is never true, or the page is gone."""
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        try:
            if shown.tell(f"Boolean({expression})"):
                return time.monotonic() - began
        except AssertionError:
            return None
        if any(event.get("method") == "Inspector.targetCrashed" for event in shown.events):
            return None
        time.sleep(0.02)
    return None
