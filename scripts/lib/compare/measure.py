"""What each page takes to open, and what a browser and axe-core find in it: the rows of a Markdown table."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import ours
import viz
from browser import Browser
from captures import Captures
from shots import until, window

# How long a large page may take.
MOST_SECONDS = 600
VIOLATIONS = "axe.run().then(found => { globalThis.found = found.violations; }); undefined"
HEADS = ["page", "bytes", "opened, s", "drawn", "asks a network", "policy", "axe-core: serious, critical", "Tab stops", "wide at 390", "dark"]


@dataclass(frozen=True)
class Page:
    """A page: its name, what is opened, the file that was sent to somebody, when it can be used, and what it has drawn then."""

    name: str
    address: str
    file: Path
    is_ready: str
    drawn: str = "''"


OURS_READY = "document.readyState === 'complete' && globalThis.gpumem?.histories().length > 0"
OURS_DRAWN = "(h => `${h.count.toLocaleString('en')} of ${h.all.toLocaleString('en')} blocks`)(gpumem.histories()[0])"
VIZ_READY = "document.querySelectorAll('polygon').length > 2"
VIZ_DRAWN = "[...document.querySelectorAll('label')].map(of => of.textContent).find(of => of.startsWith('Detail'))"
MEMRAY = {"table": "document.querySelectorAll('table tbody tr').length > 3"}
MEMRAY_READY = "document.querySelectorAll('.d3-flame-graph rect').length > 10"


def numbers(shown: Browser) -> list[str]:
    """Of the page that is open: requests of a network, policy, tab stops, overflow on a phone, dark colours."""
    network = [of for of in shown.requests() if not of.startswith(("file:", "data:", "blob:", "about:", "http://127.0.0.1"))]
    policy = shown.tell("Boolean(document.querySelector('meta[http-equiv=Content-Security-Policy]'))")
    stops = shown.tell(
        "[...document.querySelectorAll('a[href], button, input, select, summary, [tabindex]')].filter(of => of.tabIndex >= 0 && of.offsetParent !== null).length"
    )
    shown.resize(390, 844)
    time.sleep(0.5)
    overflow = shown.tell("Math.max(document.documentElement.scrollWidth, document.body.scrollWidth) - 390")
    shown.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    back = shown.tell("getComputedStyle(document.body).backgroundColor")
    channels = [int(part) for part in back[back.index("(") + 1 : -1].split(",")[:3]]
    is_dark = sum(channels) < 3 * 100 and not back.startswith("rgba(0, 0, 0, 0)")
    return [
        f"{len(network)} files" if network else "no", "yes" if policy else "none", str(stops),
        f"by {overflow:.0f} px" if overflow > 0 else "fits", "yes" if is_dark else "no",
    ]


def serious(shown: Browser, axe: Path) -> str:
    """What axe-core finds serious or critical."""
    if not axe.is_file():
        return "not checked"
    shown.tell(axe.read_text() + "; undefined")
    shown.tell(VIOLATIONS)
    shown.wait("globalThis.found !== undefined", 120)
    found = shown.tell("globalThis.found.filter(of => ['serious', 'critical'].includes(of.impact)).map(of => `${of.id} (${of.nodes.length})`)")
    return ", ".join(found) or "none"


def row(of: Page, axe: Path) -> list[str]:
    """A row of the table."""
    with window(1280, 1000) as shown:
        shown.events.clear()
        began = time.monotonic()
        shown.call("Page.navigate", url=of.address)
        took = until(shown, of.is_ready, MOST_SECONDS)
        if took is None:
            errors = [error.get("text", "") or json.dumps(error)[:100] for error in shown.errors()]
            return [of.name, f"{of.file.stat().st_size:,}", f"not within {time.monotonic() - began:.0f}", *errors[:1], *[""] * (6 - len(errors[:1]))]
        opened = time.monotonic() - began
        drawn = shown.tell(of.drawn) or ""
        found = serious(shown, axe)
        network, policy, *others = numbers(shown)
        return [of.name, f"{of.file.stat().st_size:,}", f"{opened:.1f}", drawn, network, policy, found, *others]


def pages(made: Captures, heap: dict[str, Path], folder: Path, large: list[Path], address: str | None, where: Path | None) -> Iterator[Page]:
    """All that is compared."""
    for capture in [made.training, *large]:
        page = ours.page(capture, folder)
        yield Page(f"gpumem, {capture.stem}", page.as_uri(), page, OURS_READY, OURS_DRAWN)
        if where:
            snapshot = viz.snapshot(capture, where)
            yield Page(f"memory_viz, {capture.stem}", f"{address}/{viz.page(snapshot)}", snapshot, VIZ_READY, VIZ_DRAWN)
    for name, page in heap.items():
        yield Page(f"memray {name}", page.as_uri(), page, MEMRAY.get(name, MEMRAY_READY))


def table(made: Captures, heap: dict[str, Path], files: Path | None, large: list[Path], axe: Path, folder: Path) -> Iterator[str]:
    """The table in Markdown."""
    yield "| " + " | ".join(HEADS) + " |"
    yield "|---" * len(HEADS) + "|"
    where = viz.site(files, folder) if files else None
    with viz.served(where or folder) as address:
        for of in pages(made, heap, folder, large, address, where):
            yield "| " + " | ".join(row(of, axe)) + " |"
