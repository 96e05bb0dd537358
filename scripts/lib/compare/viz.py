"""Pictures of PyTorch's memory_viz, from a folder of the user, with `gpumem-analyze export torch-snapshot`."""

from __future__ import annotations

import contextlib
import functools
import http.server
import json
import pickle
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import ours
from browser import Browser
from pictured import ROOT, Captures, analyze
from shots import settle, take, window

FILES = ("MemoryViz.js", "process_alloc_data.js", "d3.min.js")
TIMELINE, HISTORY, SEGMENTS = "Active Memory Timeline", "Allocator State History", "Active Cached Segment Timeline"
# The modules from which MemoryViz.js loads d3: each is d3.min.js, which the page has loaded.
MODULES = [f"https://cdn.jsdelivr.net/npm/{name}/+esm" for name in ("d3@7", "d3-axis@3", "d3-scale@4", "d3-zoom@3", "d3-brush@3")]
D3 = "data:text/javascript,export const {select, axisLeft, scaleLinear, zoom, zoomIdentity, brushX} = globalThis.d3;"
PAGE = """<!DOCTYPE html>
<html><head><script src="d3.min.js"></script><script type="importmap">%s</script></head><body>
<script type="module">import {add_remote_files} from "./MemoryViz.js"; add_remote_files([{name: %s, url: %s}]);</script>
</body></html>
"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server that writes no log."""

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serves the folder at a local address, because browsers load no modules from files."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()


def short(name: str) -> str:
    """A file's path without the folders of this machine."""
    if "/site-packages/" in name:
        return "site-packages/" + name.split("/site-packages/", 1)[1]
    return name.removeprefix(f"{ROOT}/") if name.startswith(str(ROOT)) else name.rsplit("/", 1)[-1] if name.startswith("/") else name


def is_native(frame: dict) -> bool:
    """In our exports the file of a native frame is its library."""
    return ".so" in frame["filename"].rsplit("/", 1)[-1]


def for_pictures(snapshot: Path) -> None:
    """Keeps only Python frames, as PyTorch does with stacks="python", and shortens paths, which makes both easier to
    read."""
    data = pickle.loads(snapshot.read_bytes())
    kept: dict[int, list] = {}
    events = [event for trace in data["device_traces"] for event in trace]
    for of in [*data["segments"], *(block for segment in data["segments"] for block in segment["blocks"]), *events]:
        frames = of.get("frames", [])
        if id(frames) not in kept:
            kept[id(frames)] = [{**frame, "filename": short(frame["filename"])} for frame in frames if not is_native(frame)]
        of["frames"] = kept[id(frames)]
    snapshot.write_bytes(pickle.dumps(data, protocol=4))


def snapshot(capture: Path, site: Path) -> Path:
    """PyTorch's snapshot of a capture."""
    out = site / f"{capture.stem}.snapshot.pickle"
    analyze("export", "torch-snapshot", "-o", out, capture)
    return out


def site(viz: Path, folder: Path) -> Path:
    """A folder with memory_viz, to be served."""
    out = folder / "memory_viz"
    out.mkdir(exist_ok=True)
    for name in FILES:
        shutil.copy(viz / name, out)
    return out


def page(of: Path) -> str:
    """Writes the page for a snapshot into the same folder, and returns its name."""
    html = PAGE % (json.dumps({"imports": dict.fromkeys(MODULES, D3)}), json.dumps(of.name), json.dumps(of.name))
    (of.parent / f"{of.name}.html").write_text(html)
    return f"{of.name}.html"


def opened(shown: Browser, address: str, view: str = TIMELINE) -> None:
    """Opens a snapshot's page and waits until the view is drawn."""
    shown.call("Page.navigate", url="about:blank")
    shown.call("Page.navigate", url=address)
    shown.wait("document.querySelectorAll('polygon').length > 2", 60)
    choose(shown, view)


def choose(shown: Browser, view: str) -> None:
    """Selects a view as a user does."""
    index = shown.tell(f"[...document.querySelectorAll('select')[1].options].findIndex(of => of.text === {view!r})")
    shown.tell(
        f"(() => {{ const s = document.querySelectorAll('select')[1]; s.selectedIndex = {index};"
        " s.dispatchEvent(new Event('change')); })()"
    )
    settle(shown)


def pin(shown: Browser, address: int, bytes_: int) -> None:
    """Pins the block at an address that is live at the highest peak, with the search box and a click."""
    shown.tell(
        f"(() => {{ const box = document.querySelector('input[placeholder^=\"Search address\"]'); box.value = '{address:x}';"
        " box.dispatchEvent(new Event('input')); })()"
    )
    place = shown.tell(
        """(size => {
          const all = [...document.querySelectorAll("polygon")].filter(of => of.__data__);
          const box = of => of.getBoundingClientRect();
          const spike = box(all.reduce((a, b) => (box(b).height > 0 && box(b).top < box(a).top ? b : a)));
          const found = all.filter(of => of.dataset.searchMatch === "true" && of.__data__.size === size
            && box(of).left <= spike.left && box(of).right >= spike.left);
          const at = box(found[0]);
          return [at.left + at.width * 0.75, at.top + at.height / 2];
        })"""
        f"({bytes_})"
    )
    shown.move(*place)
    shown.click(*place)
    settle(shown)


def event(shown: Browser, number: int) -> None:
    """Selects an event of the allocator's history with a click on its line."""
    shown.tell(f"document.querySelectorAll('pre')[{number}].scrollIntoView({{block: 'center'}})")
    x, y = shown.tell(
        f"(() => {{ const b = document.querySelectorAll('pre')[{number}].getBoundingClientRect(); return [b.left + 40, b.top + 6]; }})()"
    )
    shown.move(x, y)
    shown.click(x, y)
    settle(shown)


# The indices, among all <pre> of the page, of the lines of events.
LINES = "[...document.querySelectorAll('pre')].map((of, i) => [of, i]).filter(([of]) => of.__data__ && of.__data__.action)"


def pictures(made: Captures, viz: Path, folder: Path, out: Path) -> None:
    """Makes all pictures for docs/compared.md."""
    where = site(viz, folder)
    snapshots = [snapshot(of, where) for of in (made.training, made.failing)]
    for of in snapshots:
        for_pictures(of)
    training, failing = map(page, snapshots)
    with window(1280, 1000) as shown:
        ours.opened(shown, ours.page(made.training, folder))
        block = ours.pinned(shown)
    with served(where) as address, window(1280, 1000) as shown:
        opened(shown, f"{address}/{training}")
        pin(shown, int(block["address"]), int(block["bytes"]))
        take(shown, out / "memory_viz-timeline.png")
        choose(shown, SEGMENTS)
        x, y = shown.tell(
            "(() => { const of = [...document.querySelectorAll('polygon')].filter(p => p.__data__ && p.getBoundingClientRect().height > 20).at(-1)"
            ".getBoundingClientRect(); return [of.left + of.width / 2, of.top + of.height / 2]; })()"
        )
        shown.move(x, y)
        take(shown, out / "memory_viz-segments.png")
        opened(shown, f"{address}/{training}", HISTORY)
        most = shown.tell(f"{LINES}.filter(([of]) => of.__data__.action === 'alloc').reduce((a, b) => b[0].__data__.size >= a[0].__data__.size ? b : a)[1]")
        event(shown, most)
        take(shown, out / "memory_viz-history.png")
        opened(shown, f"{address}/{failing}", HISTORY)
        event(shown, shown.tell(f"{LINES}.find(([of]) => of.__data__.action === 'oom')[1]"))
        take(shown, out / "memory_viz-out-of-memory.png")
    with served(where) as address, window(390, 844, "dark") as shown:
        opened(shown, f"{address}/{training}")
        take(shown, out / "memory_viz-phone.png")
