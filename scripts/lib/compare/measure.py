"""Measures the time of each page, and the problems that a browser and axe-core find: tables in Markdown."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import ours
import viz
from browser import Browser
from pictured import Captures
from shots import settle, until, window

# The time limit for a large page and its map.
MOST_SECONDS = 600
VIOLATIONS = "axe.run().then(found => { globalThis.found = found.violations; }); undefined"
TIMES = ["page", "bytes", "opened, s", "drawn", "a view, ms", "map opened, s", "one event back, s"]
FOUND = ["page", "asks a network", "policy", "axe-core: serious, critical", "Tab stops", "wide at 390", "dark"]
# The median of twenty views, each until it is drawn.
VIEWS = """(async () => {
  const frame = () => new Promise(done => requestAnimationFrame(done)), taken = [];
  for (let i = 0; i < 20; i++) {
    const began = performance.now();
    %s;
    await frame();
    await frame();
    taken.push(performance.now() - began);
  }
  globalThis.taken = taken.sort((a, b) => a - b)[10];
})(); undefined"""


@dataclass(frozen=True)
class Page:
    """A page: its name, its address, the file to send to others, when it can be used, and when it is drawn."""

    name: str
    address: str
    file: Path
    is_ready: str
    drawn: str = "''"
    # Shows another part of the run; `i` is a number from 0 to 19.
    view: str = ""
    # Shows the map of an event, and when that is drawn; an empty text if the page has it from the start.
    map: str = ""
    map_is_ready: str = ""
    # Goes to the previous event.
    back: str = ""


OURS_READY = "document.readyState === 'complete' && globalThis.gpumem?.histories().length > 0"
OURS_DRAWN = "(h => `${h.count.toLocaleString('en')} of ${h.all.toLocaleString('en')} blocks`)(gpumem.histories()[0])"
VIZ_READY = "document.querySelectorAll('polygon').length > 2"
VIZ_DRAWN = "[...document.querySelectorAll('label')].map(of => of.textContent).find(of => of.startsWith('Detail'))"
OURS_VIEW = "(({from, to}) => gpumem.chooseView(from + (to - from) * i / 40, from + (to - from) * (i / 40 + 0.3)))(gpumem.data)"
VIZ_VIEW = "document.querySelector('svg g g g').setAttribute('transform', `translate(${-200 - i * 9}, -100) scale(1.${i})`)"
VIZ_MAP = f"(() => {{ const s = document.querySelectorAll('select')[1]; s.value = {viz.HISTORY!r}; s.dispatchEvent(new Event('change')); }})()"
VIZ_MAP_READY = "document.querySelectorAll('svg rect').length > 5 && document.querySelectorAll('pre').length > 10"
VIZ_BACK = "document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowUp'}))"
MEMRAY = {"table": "document.querySelectorAll('table tbody tr').length > 3"}
MEMRAY_READY = "document.querySelectorAll('.d3-flame-graph rect').length > 10"


def numbers(shown: Browser) -> list[str]:
    """For the open page: network requests, policy, tab stops, overflow on a phone, dark colours."""
    network = [of for of in shown.requests() if not of.startswith(("file:", "data:", "blob:", "about:", "http://127.0.0.1"))]
    policy = shown.tell("Boolean(document.querySelector('meta[http-equiv=Content-Security-Policy]'))")
    stops = shown.tell(
        "[...document.querySelectorAll('a[href], button, input, select, summary, [tabindex]')].filter(of => of.tabIndex >= 0 && of.offsetParent !== null).length"
    )
    shown.resize(390, 844)
    # Some pages redraw a while after a change of size.
    time.sleep(2)
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
    """The serious or critical problems of axe-core."""
    if not axe.is_file():
        return "not checked"
    shown.tell(axe.read_text() + "; undefined")
    shown.tell(VIOLATIONS)
    shown.wait("globalThis.found !== undefined", 120)
    found = shown.tell("globalThis.found.filter(of => ['serious', 'critical'].includes(of.impact)).map(of => `${of.id} (${of.nodes.length})`)")
    return ", ".join(found) or "none"


def seconds(shown: Browser, does: str, is_ready: str = "true") -> str:
    """The time until something is drawn."""
    began = time.monotonic()
    # Without `returnByValue` and its wait, because a large map blocks the page for minutes.
    shown.call("Runtime.evaluate", expression=f"{does}; undefined")
    if until(shown, is_ready, MOST_SECONDS) is None:
        return f"not within {time.monotonic() - began:.0f}"
    settle(shown)
    return f"{time.monotonic() - began:.1f}"


def times(of: Page) -> list[str]:
    """The times of the page: a row."""
    with window(1280, 1000) as shown:
        began = time.monotonic()
        shown.call("Page.navigate", url=of.address)
        size = f"{of.file.stat().st_size:,}"
        if until(shown, of.is_ready, MOST_SECONDS) is None:
            return [of.name, size, f"not within {time.monotonic() - began:.0f}", "", "", "", ""]
        opened, view = f"{time.monotonic() - began:.1f}", ""
        drawn = shown.tell(of.drawn) or ""
        if of.view:
            shown.tell(VIEWS % of.view)
            shown.wait("globalThis.taken !== undefined", 120)
            view = f"{shown.tell('taken'):.0f}"
        shown_map = seconds(shown, of.map, of.map_is_ready) if of.map else ""
        back = seconds(shown, of.back) if of.back and not shown_map.startswith("not") else ""
        return [of.name, size, opened, drawn, view, shown_map, back]


def found(of: Page, axe: Path) -> list[str]:
    """The problems that a browser and axe-core find in the page: a row."""
    with window(1280, 1000) as shown:
        shown.events.clear()
        shown.call("Page.navigate", url=of.address)
        shown.wait(of.is_ready, MOST_SECONDS)
        rules = serious(shown, axe)
        network, policy, *others = numbers(shown)
        return [of.name, network, policy, rules, *others]


def pages(captures: list[Path], folder: Path, address: str, where: Path | None) -> Iterator[Page]:
    """The pages of gpumem and memory_viz."""
    for capture in captures:
        page = ours.page(capture, folder)
        yield Page(
            f"gpumem, {capture.stem}", page.as_uri(), page, OURS_READY, OURS_DRAWN, OURS_VIEW,
            back="document.getElementById('event-before').click()",
        )
        if where:
            snapshot = viz.snapshot(capture, where)
            yield Page(
                f"memory_viz, {capture.stem}", f"{address}/{viz.page(snapshot)}", snapshot, VIZ_READY, VIZ_DRAWN, VIZ_VIEW,
                VIZ_MAP, VIZ_MAP_READY, VIZ_BACK,
            )


def table(made: Captures, heap: dict[str, Path], files: Path | None, large: list[Path], axe: Path, folder: Path) -> Iterator[str]:
    """Two tables in Markdown."""
    where = viz.site(files, folder) if files else None
    reports = [Page(f"memray {name}", page.as_uri(), page, MEMRAY.get(name, MEMRAY_READY)) for name, page in heap.items()]
    with viz.served(where or folder) as address:
        small = list(pages([made.training], folder, address, where))
        for heads, rows in (
            (TIMES, map(times, itertools.chain(small, pages(large, folder, address, where), reports))),
            (FOUND, (found(of, axe) for of in [*small, *reports])),
        ):
            yield "| " + " | ".join(heads) + " |"
            yield "|---" * len(heads) + "|"
            for row in rows:
                yield "| " + " | ".join(row) + " |"
            yield ""
