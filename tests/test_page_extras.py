"""Search, events, zoom of bytes, axis of events, zoom of maps, and Back, on the page of a training that runs out of
memory.

What breaks these tests: a search that misses a block or counts one twice, an event that is not in its table, a zoom
that moves its centre, an axis of events that loses the peak, a segment without its line, and a Back with the wrong
target."""

import math
import sys

import captures
import harness
import page_blocks
import pytest
from browser import page_data


# A training that keeps its graphs until there is no memory.
REPORT = harness.CAPTURES / "graphs.bin"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    out = tmp_path_factory.mktemp("extras") / "report.html"
    harness.analyze("html", "-o", out, REPORT)
    return out


@pytest.fixture
def at(window, page):
    """The page with its blocks, as opened."""
    window.resize(1280, 1400)
    window.open(page)
    window.wait("gpumem.histories().length > 0")
    return window


def blocks_of(page, level="tensor"):
    [history] = [of for of in page_data(page)["devices"][0]["history"] if of["level"] == level]
    return page_blocks.blocks(history)


def search(window, text):
    """Types into the page's search; returns the page's message."""
    window.tell(f"(() => {{ const s = document.getElementById('find'); s.value = {text!r}; s.dispatchEvent(new Event('input')); }})()")
    return window.tell("document.getElementById('found').textContent")


def pixels(window, colour):
    """How many pixels of the chart have a colour, as 0xAABBGGRR."""
    return window.tell(
        "(() => { const c = document.querySelector('#chart canvas'); const {data} = c.getContext('2d').getImageData(0, 0, c.width, c.height);"
        f" return new Uint32Array(data.buffer).filter(p => p === {colour}).length; }})()"
    )


OUTLINE = "0xffff5cd6"


def texts_of_stacks(page):
    """Of each stack of the page all that a search looks at: frames with their source, line, function, phase, module."""
    stacks = page_data(page)["stacks"]
    found = []
    for (frame, owner, part), module in zip(stacks["stacks"], stacks["module_of"]):
        texts = [str(value) for value in (*stacks["owners"][owner].values(), *stacks["parts"][part].values()) if value]
        if module:
            texts.append(stacks["modules"][module - 1])
        above = frame + 1
        while above:
            above, name = stacks["tree"][above - 1]
            texts.append(stacks["names"][name])
            if stacks["text_of"][name]:
                texts.append(stacks["texts"][stacks["text_of"][name] - 1])
        found.append("\n".join(texts).lower())
    return found


def matching_blocks(page, text, level="tensor"):
    """The numbers of a level's blocks that a search for a text finds, which is no library's name."""
    stacks, categories = texts_of_stacks(page), page_data(page)["categories"]
    named = {number for number, stack in enumerate(stacks) if text in stack}
    return [
        number for number, block in enumerate(blocks_of(page, level))
        if block.stack in named or (block.category and text in categories[block.category - 1])
    ]


def test_search_finds_blocks_by_address_line_and_category(at, page):
    found, seq = blocks_of(page), at.tell("gpumem.history().ticks.seqs[gpumem.history().ticks.seqs.length >> 1]")
    at.tell(f"gpumem.chooseEvent({seq})")
    ends = {block.address + block.size for block in found}
    # Its first byte is just after another block's last one.
    one = next(block for block in found[len(found) // 2 :] if block.address in ends)
    for inside in (one.address, one.address + one.size - 1):
        holding = [block for block in found if block.address <= inside < block.address + block.size]
        said = search(at, hex(inside))
        assert f"tensors: {len(holding):,} of {len(found):,} blocks found" in said
        assert f"({sum(block.size for block in holding):,} bytes)" in said and "driver level: 1 of " in said
    for text in ("activation", "graphs.py:14"):
        matching = [found[number] for number in matching_blocks(page, text)]
        live = page_blocks.live(matching, seq)
        said = search(at, text)
        assert f"tensors: {len(matching):,} of {len(found):,} blocks found" in said and 0 < len(live) < len(matching) < len(found)
        assert f"({sum(block.size for block in matching):,} bytes)" in said
        assert f"live now: {len(live):,}, " in said and f"({sum(block.size for block in live):,} bytes)." in said
    assert pixels(at, OUTLINE) > 100
    assert at.tell("gpumem.mapGroups().some(g => g.rows.some(r => r.pieces.some(p => p.found)))")
    assert at.tell("document.getElementById('flame-search').value") == "graphs.py:14"
    assert "none of" in search(at, "no such text") and pixels(at, OUTLINE) == 0
    search(at, "")
    assert at.tell("document.getElementById('found').textContent") == ""


def test_search_by_keys_goes_from_match_to_match(at, page):
    at.key("/", 191)
    assert at.tell("document.activeElement.id") == "find"
    search(at, "activation")
    found, matching = blocks_of(page), matching_blocks(page, "activation")
    at.key("Enter", 13)
    assert at.tell("gpumem.state.pinned") == matching[0]
    at.key("Enter", 13)
    assert at.tell("gpumem.state.pinned") == matching[1]
    assert at.tell("gpumem.state.chosen.seq") == found[matching[1]].made
    assert at.tell("document.activeElement.id") == "find"
    at.tell("document.getElementById('match-before').click()")
    assert at.tell("gpumem.state.pinned") == matching[0]
    search(at, "")


def test_events_of_what_a_search_finds_are_listed_among_all(at, page):
    """The table goes from match to match over the whole run, and counts all of them."""
    search(at, "graphs.py:14")
    at.tell("document.getElementById('events-only').click()")
    blocks = {level: blocks_of(page, level) for level in ("tensor", "driver")}
    found = [blocks[level][number] for level in blocks for number in matching_blocks(page, "graphs.py:14", level)]
    seqs = sorted([block.made for block in found] + [block.ended for block in found if block.ended is not None])
    everything = at.tell("document.querySelector('#events caption').textContent")
    assert f"{len(seqs):,} events of " in everything and " in this page found." in everything
    for seq in (seqs[0], seqs[len(seqs) // 2], seqs[-1]):
        at.tell(f"gpumem.chooseEvent({seq})")
        place = len([of for of in seqs if of <= seq])
        shown = [row[0] for row in table_of_events(at)["rows"]]
        assert shown == seqs[max(0, place - 100) : place + 100]
    assert len(seqs) > 200
    search(at, "")
    assert at.tell("document.getElementById('events-only').disabled")
    assert " in this page found." not in at.tell("document.querySelector('#events caption').textContent")
    at.tell("document.getElementById('events-only').checked = false; document.getElementById('events-only').dispatchEvent(new Event('change'))")


def test_boxes_that_are_too_narrow_for_text_are_as_wide_as_their_bytes(at):
    """No box of the flamegraph lies over the next one."""
    boxes = at.tell("[...document.querySelectorAll('#flame [role=treeitem]')].map(b => [b.style.top, b.getBoundingClientRect().left, b.getBoundingClientRect().right, b.textContent])")
    rows = {}
    for top, left, right, text in boxes:
        rows.setdefault(top, []).append((left, right, text))
    assert any(not text for row in rows.values() for _, _, text in row)
    for row in rows.values():
        for (_, right, _), (left, _, _) in zip(sorted(row), sorted(row)[1:]):
            assert right <= left + 0.5
    assert at.tell("[...document.querySelectorAll('#flame .narrow')].every(b => b.getAttribute('aria-label') && !b.textContent)")


def table_of_events(window):
    """The rows of the table of events: event, what, exact bytes, address; and the event of the marked ones."""
    return window.tell(
        "(() => { const rows = [...document.querySelectorAll('#events tbody tr')];"
        " return {rows: rows.map(r => [Number(r.cells[0].textContent.replace(/,/g, '')), r.cells[2].textContent, r.cells[3].firstChild.title, r.cells[4].textContent]),"
        " now: rows.filter(r => r.matches('[aria-current]')).map(r => Number(r.cells[0].textContent.replace(/,/g, '')))}; })()"
    )


def test_the_table_of_events_has_all_that_happened_around_the_moment(at, page):
    """Allocations and frees of all levels, and failures, as a second reader has them."""
    found = {level: blocks_of(page, level) for level in ("tensor", "driver")}
    wanted = []
    for level, (made, freed) in {"tensor": ("tensor allocated", "tensor freed"), "driver": ("driver memory allocated", "driver memory freed")}.items():
        for block in found[level]:
            wanted.append([block.made, made, block.size, hex(block.address)])
            if block.ended is not None:
                wanted.append([block.ended, freed, block.size, hex(block.address)])
    wanted += [[failure["seq"], "allocation failed", failure["bytes"], ""] for failure in page_data(page)["failures"]]
    wanted.sort(key=lambda of: of[0])
    [failure] = page_data(page)["failures"]
    for seq in (found["tensor"][3].made, found["tensor"][len(found["tensor"]) // 2].made, failure["seq"]):
        at.tell(f"gpumem.chooseEvent({seq})")
        table = table_of_events(at)
        before = [of for of in wanted if of[0] <= seq][-100:]
        near = before + [of for of in wanted if of[0] > seq][:100]
        told = [[event, what, int(size.split(" ")[0].replace(",", "")), address] for event, what, size, address in table["rows"]]
        assert sorted(told) == sorted(near) and [of[0] for of in told] == [of[0] for of in near]
        assert {*table["now"]} == {seq}
        assert at.tell("document.getElementById('events').scrollTop") > 0 or len(before) < 10


def test_rows_of_events_are_gone_through_and_clicked(at, page):
    at.tell(f"gpumem.chooseEvent({blocks_of(page)[500].made})")
    here = at.tell("gpumem.state.chosen.seq")
    table = [seq for seq, *_ in table_of_events(at)["rows"]]
    at.tell("document.getElementById('events').focus()")
    at.key("ArrowDown", 40)
    after = min(seq for seq in table if seq > here)
    assert at.tell("gpumem.state.chosen.seq") == after and at.tell("document.activeElement.id") == "events"
    at.key("ArrowUp", 38)
    assert at.tell("gpumem.state.chosen.seq") == here
    x, y, width, _ = at.box("#events tr.now + tr")
    at.click(x + width / 2, y + 5)
    assert at.tell("gpumem.state.chosen.seq") == after
    assert f"event {after:,}" in at.tell("document.getElementById('shown').textContent")
    assert at.tell("document.getElementById('pinned').textContent") != ""


def test_bytes_are_zoomed_about_the_pinned_block(at, page):
    """The smallest block that is live at a moment gets a third of the chart."""
    found = blocks_of(page)
    seq = found[700].made
    live = page_blocks.live(found, seq)
    small = min(live, key=lambda block: block.size)
    below = sum(block.size for block in live[: live.index(small)])
    at.tell(f"gpumem.chooseEvent({seq}); gpumem.pin({found.index(small)}); document.getElementById('plot').focus()")
    at.key("e", 69)
    low, high = at.tell("gpumem.state.scale")
    assert (low, high) == (max(0, below - small.size), below + 2 * small.size)
    assert pixels(at, OUTLINE) > 1000
    at.wait(f"location.hash.includes('bytes={low}-{high}')")
    at.key("<", 188)
    assert at.tell("gpumem.state.scale[1] - gpumem.state.scale[0]") > high - low
    at.key("0", 48)
    assert at.tell("gpumem.state.scale") is None and at.tell("document.getElementById('scale').textContent") == ""
    x, y, width, height = at.box("#chart canvas")
    at.wheel(x + width / 2, y + height * 0.75, -200, 8)
    at.wait("gpumem.state.scale")
    low, high = at.tell("gpumem.state.scale")
    most = max(at.tell("[...gpumem.history().ticks.totals]"))
    # What is under the pointer stays there.
    assert abs(low + (high - low) * 0.25 - most * 0.25) < most * 0.01 and high - low < most / 2
    assert "Shown: the bytes from" in at.tell("document.getElementById('scale').textContent")


def test_an_axis_of_events_keeps_the_peak_and_gives_each_event_as_much_room(at):
    at.tell("document.getElementById('plot').focus()")
    at.key("a", 65)
    assert at.tell("gpumem.state.axis") == "event"
    at.wait("location.hash.includes('axis=event')")
    # Half of the axis is half of the events.
    count, middle = at.tell("[gpumem.history().ticks.times.length, gpumem.timeAtShare(0.5)]")
    before = at.tell(f"[...gpumem.history().ticks.times].filter(time => time <= {middle}).length")
    assert abs(before - count / 2) <= 1
    label = at.tell("document.getElementById('plot').getAttribute('aria-label')")
    at.key("a", 65)
    assert at.tell("document.getElementById('plot').getAttribute('aria-label')").split("at most")[1] == label.split("at most")[1]
    at.key("a", 65)
    at.key("+", 187)
    at.wait("gpumem.state.view[1] - gpumem.state.view[0] < gpumem.data.to - gpumem.data.from")
    begins, ends = at.tell("gpumem.state.view")
    inside = at.tell(f"[...gpumem.history().ticks.times].filter(time => time >= {begins} && time <= {ends}).length")
    assert abs(inside - 0.7 * count) < 0.02 * count
    at.tell("document.getElementById('plot').focus()")
    at.key("0", 48)
    at.key("a", 65)


def test_a_segment_says_who_took_it(window, tmp_path):
    """The line of the driver's block at the segment's address, and its calls."""
    page = tmp_path / "report.html"
    harness.analyze("html", "-o", page, harness.CAPTURES / "demo.bin")
    window.open(page)
    window.wait("gpumem.histories().length > 0")
    stacks = page_data(page)["stacks"]
    driver = {block.address: block for block in blocks_of(page, "driver")}
    said = window.tell("gpumem.mapGroups()[0].rows.map(row => row.pieces.at(-1).says())")
    for words in said:
        block = driver[int(words.split("segment ")[1].split(",")[0], 16)]
        line = stacks["owners"][stacks["stacks"][block.stack][1]]["line"]
        assert f"taken from the driver by {line}" in words and f"event {block.made:,}" in words and " ← " in words
    assert said


def test_driver_memory_has_colours_by_line_at_first(at):
    at.tell("(() => { const s = document.getElementById('level'); s.value = 1; s.dispatchEvent(new Event('change')); })()")
    assert at.tell("document.getElementById('paint').selectedOptions[0].textContent") == "line"
    assert "graphs.py:" in at.tell("document.querySelector('#chart .legend').textContent")
    at.tell("(() => { const s = document.getElementById('level'); s.value = 0; s.dispatchEvent(new Event('change')); })()")
    assert at.tell("document.getElementById('paint').selectedOptions[0].textContent") == "category"


def test_flames_stand_on_their_oldest_call(at):
    tops = "(() => { const all = [...document.querySelectorAll('#flame [role=treeitem]')]; return all.map(b => [Number(b.ariaLevel), b.offsetTop]); })()"
    icicles = dict(at.tell(tops))
    at.tell("document.getElementById('flames').click()")
    flames = dict(at.tell(tops))
    deepest = max(icicles)
    assert icicles[1] == 0 == flames[deepest] and flames[1] == icicles[deepest] > 0
    assert "flames=up" in at.tell("location.hash")
    at.tell("document.querySelector('#flame [data-frame=\"0\"]').focus()")
    at.key("ArrowUp", 38)
    assert at.tell("document.activeElement.getAttribute('aria-level')") == "2"


def test_back_leads_to_what_was_shown(at):
    frame = at.tell("document.querySelectorAll('#flame [role=treeitem]')[3].dataset.frame")
    before = at.tell("gpumem.state.moment")
    at.tell(f"document.querySelector('#flame [data-frame=\"{frame}\"]').click()")
    assert f"frame={frame}" in at.tell("location.hash")
    at.tell("document.getElementById('earlier').click()")
    assert at.tell("gpumem.state.moment") == before - 1
    at.tell("history.back()")
    at.wait(f"gpumem.state.moment === {before} && gpumem.state.frame === {frame}")
    at.tell("history.back()")
    at.wait("gpumem.state.frame === 0")
    assert at.tell("gpumem.state.moment") == before
    at.tell("history.forward()")
    at.wait(f"gpumem.state.frame === {frame}")
    # Steps are no jumps.
    length = at.tell("history.length")
    at.tell("document.getElementById('plot').focus()")
    at.key("ArrowLeft", 37)
    at.key("ArrowLeft", 37)
    assert at.tell("history.length") == length and at.errors() == []


# The right edge of each row's bar, in pixels from the bars' left.
BARS = """(() => { const c = document.getElementById('map-rows-0'), x = c.getContext('2d'), rows = gpumem.mapGroups()[0].rows;
  return rows.slice(0, 100).map((_, i) => { const {data} = x.getImageData(300, i * 18 + 9, c.width - 300, 1); let last = 0;
    for (let at = 0; at < data.length / 4; at++) if (data[at * 4 + 3]) last = at; return last; }); })()"""


def test_maps_are_zoomed_and_moved_and_small_segments_are_seen(at, page):
    """Each bar is as `wide` as its bytes in the new scale, and the object under the pointer stays in place."""
    at.tell(f"gpumem.chooseEvent({blocks_of(page)[700].made})")
    sizes = at.tell("gpumem.mapGroups()[0].rows.map(row => row.wide)")
    wide = at.tell(BARS)
    assert wide[0] > 900 and min(wide) >= 8
    for size, pixels_ in zip(sizes, wide):
        assert abs(pixels_ - max(8, size / sizes[0] * wide[0])) <= 3
    at.tell("document.getElementById('map-rows-0').focus()")
    at.key("+", 187)
    larger = at.tell(BARS)
    for size, pixels_ in zip(sizes, larger):
        assert abs(pixels_ - min(larger[0], max(8, 1.5 * size / sizes[0] * wide[0]))) <= 3
    at.key("0", 48)
    assert at.tell(BARS) == wide
    x, y, width, height = at.box("#map-rows-0")
    at.wheel(x + 300 + (width - 300) / 2, y + 10, -138, 2)
    at.wait(f"JSON.stringify({BARS}) !== '{str(wide).replace(' ', '')}'")
    # The middle, where the pointer is, stays there; what lies to the left of what is shown is not seen.
    times = math.exp(138 / 200)
    left = 0.5 - 0.5 / times
    for size, pixels_ in zip(sizes, at.tell(BARS)):
        assert abs(pixels_ - min(wide[0], max(0, (size / sizes[0] - left) * times * wide[0]))) <= 6
    at.tell("document.getElementById('map-whole').click()")
    assert at.tell(BARS) == wide
    assert at.errors() == []


def test_a_small_segment_beside_a_large_one_has_8_pixels(window, tmp_path):
    """2 MiB beside 512 MiB would have 3 pixels of the map; a note states that it has more."""
    out = tmp_path / "small.html"
    harness.analyze("html", "-o", out, captures.capture("two_segments"))
    window.resize(1280, 1400)
    window.open(out)
    window.wait("gpumem.histories().length > 0")
    assert [size >> 20 for size in window.tell("gpumem.mapGroups()[0].rows.map(row => row.wide)")] == [512, 2]
    large, small = window.tell(BARS)
    assert large > 900 and 8 <= small <= 10
    assert "1 row is drawn wider than to scale" in window.tell("document.getElementById('map').textContent")
    window.tell("document.getElementById('map-rows-0').focus()")
    for _ in range(4):
        window.key("+", 187)
    # 2 of 512 MiB, each time half as wide again.
    assert abs(window.tell(BARS)[1] - 1.5**4 * large * 2 / 512) <= 3
    assert "drawn wider" not in window.tell("document.getElementById('map').textContent")


PROGRAM = """from sim_cuda import must, out

must("cuInit", 0)
must("cuCtxSetCurrent", out("cuDevicePrimaryCtxRetain", 0))
kept = out("cuMemAlloc_v2", 64 << 20)
"""


def test_no_source_leaves_the_text_of_lines_out(window, simulate, tmp_path):
    """The text of a program's line is in the page, and not in one that is made without source; its name is in both."""
    (tmp_path / "allocates.py").write_text(PROGRAM)
    simulate([sys.executable, "allocates.py"], preload=True, env={"PYTHONPATH": str(harness.WORKLOADS)})
    pages = [tmp_path / "with.html", tmp_path / "without.html"]
    for out, options in zip(pages, ([], ["--no-source"])):
        harness.analyze("html", *options, "-o", out, tmp_path / "report.bin")
    data, bare = map(page_data, pages)
    texts = [text for text in data["stacks"]["texts"] if len(text) > 5]
    assert 'kept = out("cuMemAlloc_v2", 64 << 20)' in texts and bare["stacks"]["texts"] == []
    assert not any(owner["source"] for owner in bare["stacks"]["owners"])
    plain = pages[1].read_text().split('id="data">')[1].split("</script>")[0]
    assert [text for text in texts if text in plain] == [] and "allocates.py" in plain
    window.open(pages[0])
    labels = window.tell("[...document.querySelectorAll('#flame [role=treeitem]')].map(b => b.getAttribute('aria-label'))")
    assert any("allocates.py:5" in label and ": kept = out(" in label for label in labels), labels


@pytest.mark.parametrize("width", [390, 1280])
def test_it_is_accessible_with_all_of_it_in_use(at, width, tmp_path):
    """With a search, a zoom and a pinned block, light and dark, nothing overflows and axe-core finds nothing serious."""
    axe = harness.ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
    at.resize(width, 1200)
    search(at, "activation")
    at.tell("document.getElementById('match-after').click(); document.getElementById('enlarge').click(); document.getElementById('flames').click()")
    at.wait(f"document.documentElement.scrollWidth <= {width}")
    for scheme in ("light", "dark"):
        at.picture(tmp_path / f"{scheme}.png", scheme)
        if not axe.is_file():
            pytest.skip("what is accessible was not checked: scripts/web installs axe-core")
        at.tell(axe.read_text() + "; undefined")
        at.tell("axe.run().then(found => { globalThis.found = found.violations; }); undefined")
        at.wait("globalThis.found !== undefined")
        found = at.tell("globalThis.found.map(v => [v.id, v.impact, v.nodes.slice(0, 3).map(n => n.html.slice(0, 160) + ' ' + n.failureSummary)])")
        at.tell("globalThis.found = undefined")
        assert [of for of in found if of[1] in ("serious", "critical")] == [], found
    assert at.errors() == []
