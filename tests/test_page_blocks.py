"""Memory over time block by block, on the page of a training that runs out of memory, in a headless browser.

What breaks these tests: a level at an event that is not that of `lines`, pixels that are not in proportion to bytes,
a map that is not that of `fragmentation`, a zoom to the visible range, a key or a link with the wrong target, and
content that overflows a narrow window."""

import json

import captures
import harness
import page_blocks
import pytest
from browser import page_data

# A training that keeps its graphs until there is no memory.
REPORT = harness.CAPTURES / "graphs.bin"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    out = tmp_path_factory.mktemp("blocks") / "report.html"
    harness.analyze("html", "-o", out, REPORT)
    return out


def show(window, page):
    window.resize(1280, 1400)
    window.open(page)
    window.wait("gpumem.histories().length > 0")


@pytest.fixture
def at(window, page):
    """The page with its blocks, as opened."""
    show(window, page)
    return window


def level(window):
    return window.tell("gpumem.level().bytes")


def data_of(page):
    data = page_data(page)
    return data, {of["level"]: page_blocks.blocks(of) for of in data["devices"][0]["history"]}


def middles(found, count):
    """The events of blocks, from all over the run."""
    return [found[len(found) * part // count].made for part in range(1, count)]


def test_any_event_has_the_figures_of_lines(at, page):
    _, blocks = data_of(page)
    for seq in middles(blocks["tensor"], 4):
        at.tell(f"gpumem.chooseEvent({seq})")
        rows = harness.analyze_json("lines", "--at", str(seq), REPORT)
        wanted = {}
        for row in rows:
            line = f"{row['file'].rsplit('/', 1)[-1]}:{row['line']}" if row["file"] else None
            wanted[line] = wanted.get(line, 0) + row["bytes"]
        assert level(at) == sum(wanted.values())
        owners = at.tell(
            "gpumem.level().stacks.map(([stack, bytes]) => [gpumem.data.stacks.owners[gpumem.data.stacks.stacks[stack][1]].line, bytes])"
        )
        found = {}
        for line, size in owners:
            found[line.split(" ")[0]] = found.get(line.split(" ")[0], 0) + size
        assert {line: size for line, size in found.items() if line in wanted} == {line: size for line, size in wanted.items() if line}
        assert f"event {seq:,}" in at.tell("document.getElementById('shown').textContent")


COLUMNS = """(() => {
  const canvas = document.querySelector('#chart canvas'), context = canvas.getContext('2d');
  const {data, width, height} = context.getImageData(0, 0, canvas.width, canvas.height);
  const empty = data.slice(0, 3).join(), filled = new Array(width).fill(0);
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) {
    const at = (y * width + x) * 4;
    if (data.slice(at, at + 3).join() !== empty) filled[x]++;
  }
  return {filled, height};
})()"""


def test_pixels_are_in_proportion_to_bytes(at):
    """Each column is as high as the most that the level held in its time; the highest fills the chart but for rounding."""
    pixels = at.tell(COLUMNS)
    ticks = at.tell("(() => { const t = gpumem.history().ticks; return {times: [...t.times], totals: [...t.totals]}; })()")
    edges = at.tell(f"Array.from({{length: {len(pixels['filled']) + 1}}}, (_, x) => gpumem.timeAtShare(x / {len(pixels['filled'])}))")
    most, wrong, last = max(ticks["totals"]), 0, 0
    place = 0
    for x, filled in enumerate(pixels["filled"]):
        high = last
        while place < len(ticks["times"]) and ticks["times"][place] <= edges[x + 1]:
            last = ticks["totals"][place]
            high = max(high, last)
            place += 1
        wrong += abs(filled - high / most * pixels["height"]) > 1
    # The top of the first column is the empty colour.
    assert max(pixels["filled"]) >= pixels["height"] - 1 and wrong == 0


def test_the_map_is_that_of_fragmentation(at, page):
    data, blocks = data_of(page)
    [failure] = data["failures"]
    for seq in [*middles(blocks["tensor"], 3), failure["seq"]]:
        at.tell(f"gpumem.chooseEvent({seq})")
        figures = dict(at.tell("[...document.querySelectorAll('#map-figures dd')].map(d => [d.dataset.figure, Number(d.dataset.bytes)])"))
        [wanted] = harness.analyze_json("ledger", "--pool", "--at", str(seq), REPORT)
        assert figures["reserved"] == wanted["reserved_bytes"]
        assert figures["allocated"] == wanted["live_bytes"]
        assert figures["free"] == wanted["free_bytes"]
        assert figures["largest free block"] == wanted["largest_free_block_bytes"]
        live = page_blocks.live(blocks["tensor"], seq)
        assert figures["of that rounded up"] == sum(block.slack for block in live)
    assert "fits in no free block" in at.tell("document.getElementById('map-said').textContent")
    at.tell("gpumem.chooseEvent(gpumem.data.failures[0].seq - 50); document.getElementById('failure-after').click()")
    assert f"event {failure['seq']:,}" in at.tell("document.getElementById('shown').textContent")


def test_the_pointer_tells_of_a_block_and_a_click_pins_it(at, page):
    x, y, width, height = at.box("#chart canvas")
    place = (x + width * 0.7, y + height * 0.8)
    at.move(*place)
    said = at.tell("document.getElementById('at').textContent")
    assert "graphs.py:" in said and "live from" in said
    at.click(*place)
    shown = at.tell("document.getElementById('pinned').textContent")
    _, blocks = data_of(page)
    pinned = blocks["tensor"][at.tell("gpumem.state.pinned")]
    assert f"({pinned.size:,} bytes)" in shown and f"{pinned.address:#x}" in shown and f"event {pinned.made:,}" in shown
    assert f"rounded up by {pinned.slack} B" in shown or pinned.slack == 0 or "KiB" in shown
    colours = at.tell(COLUMNS.replace("return {filled, height};", "return [...new Uint32Array(data.buffer)].filter(p => p === 0xffff5cd6).length;"))
    assert colours > 100
    at.key("Escape", 27)
    assert at.tell("document.getElementById('pinned').hidden")
    # The map pins as well, in whichever of its rows something lies at the left.
    x, y, width, height = at.box("#map-rows-0")
    for row in range(6):
        at.click(x + width * 0.03, y + 9 + 18 * row)
        if not at.tell("document.getElementById('pinned').hidden"):
            return
    pytest.fail("nothing lies in the map")


def test_a_window_of_the_minimap_shows_what_was_not_seen(at):
    seen = "new Set(gpumem.visibleBlocks()).size"
    whole = at.tell(f"(() => {{ const all = new Set(gpumem.visibleBlocks()); globalThis.seen = all; return {seen}; }})()")
    x, y, width, height = at.box("#minimap svg")
    at.drag((x + width * 0.5, y + height / 2), (x + width * 0.53, y + height / 2))
    begins, ends = at.tell("gpumem.state.view")
    assert ends - begins < at.tell("gpumem.data.to - gpumem.data.from") / 10
    assert at.tell("[...new Set(gpumem.visibleBlocks())].filter(b => !globalThis.seen.has(b)).length") > 20, whole
    at.wheel(x + width / 2, at.box("#chart canvas")[1] + 50, -300, 2)
    nearer = at.tell("gpumem.state.view")
    assert nearer[1] - nearer[0] < ends - begins


def test_what_a_stretch_left_behind(at, page):
    _, blocks = data_of(page)
    begins, ends = (blocks["tensor"][len(blocks["tensor"]) * part // 4] for part in (1, 3))
    at.tell(f"gpumem.chooseRange({begins.made_ns}, {ends.made_ns}); document.getElementById('survivors').click()")
    left = [block for block in page_blocks.live(blocks["tensor"], ends.made) if block.made > begins.made]
    assert level(at) == sum(block.size for block in left) > 0
    assert "live at the end of that" in at.tell("document.getElementById('shown').textContent")
    blocks_told = at.tell("[...document.querySelectorAll('#lines tfoot tr')].at(-1).cells[6].textContent")
    assert int(blocks_told.replace(",", "")) == len(left)
    assert at.tell("document.querySelectorAll('#flame [role=treeitem]').length") > 3


def test_levels_colours_and_lanes(at):
    at.tell("(() => { const s = document.getElementById('level'); s.value = 1; s.dispatchEvent(new Event('change')); })()")
    assert at.tell("gpumem.history().level") == "driver"
    at.tell("(() => { const s = document.getElementById('level'); s.value = 2; s.dispatchEvent(new Event('change')); })()")
    assert at.tell("document.querySelector('#chart canvas')") is None
    assert "context" in at.tell("document.querySelector('#chart .legend').textContent")
    at.tell("(() => { const s = document.getElementById('level'); s.value = 0; s.dispatchEvent(new Event('change')); })()")
    for number, word in ((0, "activation"), (1, "graphs.py:14"), (2, "Linear#")):
        at.tell(f"(() => {{ const s = document.getElementById('paint'); s.value = {number}; s.dispatchEvent(new Event('change')); }})()")
        assert word in at.tell("document.querySelector('#chart .legend').textContent")
    lanes = at.tell("[...document.querySelectorAll('#chart text')].map(t => t.firstChild.textContent)")
    assert {"phases", "steps"} <= {*lanes}
    assert at.tell("document.querySelectorAll('#chart .fold').length") == len(at.tell("gpumem.data.folds")) > 0
    assert at.tell("document.querySelectorAll('#chart .failure').length") == 1
    assert at.errors() == []


def test_dispatch_folds_in_the_flamegraph(window, tmp_path):
    """Functions that only pass a call on are folded into their caller unless all frames are selected; no byte is
    lost either way. The capture has the names of PyTorch's own functions."""
    harness.analyze("html", "-o", tmp_path / "named.html", harness.CAPTURES / "demo.bin")
    show(window, tmp_path / "named.html")
    labels = "[...document.querySelectorAll('#flame [role=treeitem]')].map(b => b.getAttribute('aria-label'))"
    folded = window.tell(labels)
    window.tell("document.getElementById('all-frames').click()")
    every = window.tell(labels)
    assert not any("_wrapped_call_impl" in label or "c10::" in label for label in folded)
    assert any("_wrapped_call_impl" in label for label in every) and any("c10::" in label for label in every)
    assert folded[0] == every[0] and any("train.py:" in label for label in folded)
    kinds = window.tell("document.getElementById('flame-kinds').textContent")
    assert "your Python" in kinds and "dispatch" in kinds


def test_all_of_it_by_keys(at, page):
    _, blocks = data_of(page)
    at.tell("document.getElementById('plot').focus()")
    at.key("0", 48)
    at.tell(f"gpumem.chooseEvent({blocks['tensor'][500].made})")
    assert at.tell("document.activeElement.id") == "plot"
    seqs = at.tell("[...gpumem.history().ticks.seqs]")
    here = at.tell("gpumem.state.chosen.seq")
    at.key("ArrowRight", 39)
    assert at.tell("gpumem.state.chosen.seq") == seqs[seqs.index(here) + 1]
    at.key("ArrowUp", 38)
    first = at.tell("gpumem.state.pinned")
    at.key("ArrowDown", 40)
    assert at.tell("gpumem.state.pinned") != first is not None
    at.key("+", 187)
    begins, ends = at.tell("gpumem.state.view")
    assert ends - begins < at.tell("gpumem.data.to - gpumem.data.from")
    at.key("0", 48)
    at.tell("document.activeElement.blur()")
    at.key("f", 70)
    assert at.tell("gpumem.state.chosen.seq") == at.tell("gpumem.data.failures[0].seq")
    at.key("p", 80)
    assert at.tell("gpumem.state.chosen") is None
    at.key("/", 191)
    assert at.tell("document.activeElement.id") == "find"
    at.tell("document.activeElement.blur()")
    at.key("?", 191)
    assert at.tell("document.getElementById('help').open") and "the next failure" in at.tell("document.getElementById('help').textContent")
    at.key("Escape", 27)
    assert not at.tell("document.getElementById('help').open")


def test_links_lead_to_what_was_shown(at, page):
    seq = data_of(page)[1]["tensor"][700].made
    at.tell(f"gpumem.chooseEvent({seq}); gpumem.chooseView(gpumem.data.from + 1e6, gpumem.data.to - 1e6)")
    # The address is written when the view rests.
    at.wait("location.hash.includes('view=')")
    link = at.tell("location.hash")
    shown, view = level(at), at.tell("gpumem.state.view")
    for target, same in ((link, True), ("#at=oom", False), ("#at=peak&show=driver", False)):
        at.call("Page.navigate", url="about:blank")
        at.call("Page.navigate", url=page.resolve().as_uri() + target)
        at.wait("document.readyState === 'complete' && globalThis.gpumem?.histories().length > 0")
        if same:
            assert (level(at), at.tell("gpumem.state.view")) == (shown, view)
        elif "oom" in target:
            assert "the failure" in at.tell("document.getElementById('shown').textContent")
        else:
            assert at.tell("gpumem.level().level") == "driver"


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_it_fits_and_is_accessible(at, width, tmp_path):
    """At any width, light and dark: nothing overflows, and axe-core finds nothing serious."""
    axe = harness.ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
    at.resize(width, 1200)
    at.wait(f"document.documentElement.scrollWidth <= {width}")
    for scheme in ("light", "dark"):
        at.picture(tmp_path / f"{scheme}.png", scheme)
        if not axe.is_file():
            continue
        at.tell(axe.read_text() + "; undefined")
        at.tell("axe.run().then(found => { globalThis.found = found.violations; }); undefined")
        at.wait("globalThis.found !== undefined")
        found = at.tell("globalThis.found.map(v => [v.id, v.impact, v.nodes.slice(0, 3).map(n => n.html.slice(0, 160) + ' ' + n.failureSummary)])")
        at.tell("globalThis.found = undefined")
        assert [of for of in found if of[1] in ("serious", "critical")] == [], json.dumps(found, indent=1)
    assert at.errors() == []
    if not axe.is_file():
        pytest.skip("what is accessible was not checked: scripts/web installs axe-core")


def test_four_gpus_each_have_their_blocks(window, tmp_path):
    report, out = captures.capture("kinds"), tmp_path / "four.html"
    harness.analyze("html", "-o", out, report)
    show(window, out)
    sizes = []
    for gpu in range(4):
        window.tell(f"(() => {{ const s = document.getElementById('device'); s.value = {gpu}; s.dispatchEvent(new Event('change')); }})()")
        window.wait("gpumem.histories().length > 0")
        window.tell("(() => { const s = gpumem.history().ticks.seqs; gpumem.chooseEvent(s[s.length >> 1]); })()")
        rows = harness.analyze_json("lines", "--at", str(window.tell("gpumem.state.chosen.seq")), "--device", str(gpu), report)
        sizes.append(sum(row["bytes"] for row in rows))
        assert window.tell("gpumem.level().bytes") == sizes[gpu] > 0
    assert len({*sizes}) == 4 and window.errors() == []
