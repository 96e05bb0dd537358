"""Pictures of gpumem's page and flamegraph."""

from __future__ import annotations

from pathlib import Path

from browser import Browser
from pictured import ROOT, Captures, analyze
from shots import part, settle, take, window

# The number of the largest block of a line that is live at the peak of the shown level.
LARGEST_OF_LINE = """(line => {
  const now = gpumem.history(), {seqs} = now.ticks, {stacks, owners} = gpumem.data.stacks;
  const peak = gpumem.data.devices[0].moments.find(of => of.kind === "peak").seq;
  let best = -1;
  for (let i = 0; i < now.count; i++) {
    const ended = now.ended[i] < seqs.length ? seqs[now.ended[i]] : Infinity;
    if (seqs[now.made[i]] > peak || ended <= peak || now.stacks[i] < 0) continue;
    const owner = owners[stacks[now.stacks[i]][1]];
    if (owner.line.endsWith(line) && (best < 0 || now.bytes[i] > now.bytes[best])) best = i;
  }
  return best;
})"""
# The block that both pages have pinned: the result of the second convolution.
PINNED_LINE = "train.py:27"
# The times at which steps ended, in the page's units.
STEP_ENDS = "gpumem.data.lanes.find(of => of.name === 'steps').spans.map(of => of[1])"


def portable(text: str, folder: Path) -> str:
    """The text without folders of this machine, which must not be in pictures."""
    return text.replace(str(folder), "/home/me").replace(str(ROOT), "/home/me/gpumem")


def page(capture: Path, folder: Path) -> Path:
    """The page of a capture."""
    out = folder / f"{capture.stem}.html"
    analyze("html", "-o", out, capture)
    out.write_text(portable(out.read_text(), folder))
    return out


def opened(shown: Browser, of: Path, link: str = "") -> None:
    """Opens a page and waits until its blocks are decoded."""
    shown.call("Page.navigate", url="about:blank")
    shown.call("Page.navigate", url=of.resolve().as_uri() + link)
    shown.wait("document.readyState === 'complete' && globalThis.gpumem?.histories().length > 0")
    # A picture has parts that are outside the window; these are drawn, too.
    shown.tell("for (const of of document.querySelectorAll('section *')) of.style.contentVisibility = 'visible'")
    settle(shown)


def pinned(shown: Browser) -> dict:
    """Pins the block that all pictures of the training run have pinned, and returns it."""
    number = shown.tell(f"{LARGEST_OF_LINE}({PINNED_LINE!r})")
    assert number >= 0, f"no block of {PINNED_LINE} is live at the peak"
    shown.tell(f"gpumem.pin({number})")
    settle(shown)
    return shown.tell(
        f"({{bytes: gpumem.history().bytes[{number}], address: gpumem.history().addresses[{number}],"
        f" seq: gpumem.history().ticks.seqs[gpumem.history().made[{number}]]}})"
    )


def section(name: str) -> str:
    """The section of the page with this heading."""
    return f"section[aria-labelledby={name}]"


def pictures(made: Captures, folder: Path, images: Path) -> None:
    """Makes our pictures for docs and README.md."""
    out = images / "compared"
    training, failing = page(made.training, folder), page(made.failing, folder)
    with window(1280, 1000) as shown:
        opened(shown, training)
        pinned(shown)
        take(shown, out / "gpumem-timeline.png", part(shown, section("timeline-head"), most=1100))
        take(shown, out / "gpumem-map.png", part(shown, "#map-section", most=640))
        shown.tell("gpumem.pin(null)")
        ends = shown.tell(STEP_ENDS)
        shown.tell(f"gpumem.chooseRange({ends[1]}, {ends[-1]}); document.getElementById('survivors').click()")
        take(shown, out / "gpumem-range.png", part(shown, section("flame-head"), section("lines-head"), most=900))
        opened(shown, training, "#at=peak&show=driver")
        shown.tell("(() => { const s = document.getElementById('paint'); s.selectedIndex = 1; s.dispatchEvent(new Event('change')); })()")
        take(shown, out / "gpumem-driver.png", part(shown, section("timeline-head"), most=560))
        opened(shown, failing, "#at=oom")
        take(shown, out / "gpumem-out-of-memory.png", part(shown, "header", "#map-section", most=1250))
        analyze("flamegraph", "-o", folder / "flame.svg", made.training)
        shown.open(folder / "flame.svg")
        take(shown, images / "flamegraph.png", (0, 0, 1280, min(900, shown.tell("document.documentElement.getBoundingClientRect().height"))))
        # For README: from the top of the page to the map. The stack of the pinned block is long, and is in a picture
        # above.
        opened(shown, training)
        pinned(shown)
        shown.tell("document.querySelector('#pinned details').open = false")
        take(shown, images / "page.png", part(shown, "header", "#map-section", most=1500))
    with window(390, 844, "dark") as shown:
        opened(shown, training)
        pinned(shown)
        take(shown, out / "gpumem-phone.png", (0, 0, 390, 844))
