"""The page of a recorded training, opened in a headless browser.

What breaks these tests: an error in the page's program, any download, a table that does not sum to the level, a brush
that does not change the tables, names that become markup.
"""

import re

import harness
import page_blocks
import pytest
from browser import page_data

MOST = 5_000_000
TRAINING = harness.CAPTURES / "demo.bin"


@pytest.fixture(scope="module")
def page(analyze, tmp_path_factory):
    out = tmp_path_factory.mktemp("page") / "report.html"
    analyze("html", "-o", out, TRAINING)
    return out


def test_every_moment_sums_and_is_that_of_lines(page, analyze_json):
    """Each of the page's moments has the bytes, line by line, that `lines --at` has of the same event."""
    data = page_data(page)
    moments = data["devices"][0]["moments"]
    assert {"peak", "end", "most"} == {then["kind"] for then in moments}
    assert len(moments) >= 5
    for then in moments:
        for level in then["levels"]:
            assert sum(row[1] for row in level["stacks"]) + level["others"][1] == level["bytes"]
            at = {"peak": then["seq"], "end": "end"}.get(then["kind"], then["seq"])
            rows = analyze_json("lines", "--at", str(at), "--level", level["level"], TRAINING)
            wanted = {}
            for row in rows:
                where = f"{row['file']}:{row['line']}" if row["file"] else None
                wanted[where] = wanted.get(where, 0) + row["bytes"]
            ours = {}
            for stack, size, _ in level["stacks"]:
                owner = data["stacks"]["owners"][data["stacks"]["stacks"][stack][1]]
                label = re.sub(r" \(.*\)$", "", owner["path"] or owner["line"])
                ours[label] = ours.get(label, 0) + size
            lines = {line: size for line, size in wanted.items() if line}
            assert {line: ours.get(line) for line in lines} == lines
            assert sum(wanted.values()) == level["bytes"]


def test_the_blocks_of_the_page_are_the_level_at_every_event(page, analyze_json):
    """Just after any event the blocks that the page has of a level sum to its bytes, stack by stack as `lines` has them."""
    data = page_data(page)
    [tensors, driver] = sorted(data["devices"][0]["history"], key=lambda of: of["level"], reverse=True)
    for history in (tensors, driver):
        assert history["whole"] and history["blocks"] == history["all"] > 0
        found = page_blocks.blocks(history)
        level = page_blocks.level(found)
        for seq, _, size in history["points"]:
            assert level(seq) == size
        for seq in [found[len(found) // 3].made, found[len(found) // 2].made]:
            rows = analyze_json("lines", "--at", str(seq), "--level", history["level"], TRAINING)
            live = page_blocks.live(found, seq)
            assert (sum(row["bytes"] for row in rows), sum(row["blocks"] for row in rows)) == (
                sum(block.size for block in live), len(live)
            )
            assert all(block.stack is not None for block in live)
    names = [data["categories"][block.category - 1] for block in page_blocks.blocks(tensors)]
    assert {"parameter", "gradient", "activation"} <= {*names}
    # The requested size of each tensor is known; PyTorch rounds it up to a multiple of 512 bytes.
    assert all(block.slack is not None and block.size % 512 == 0 for block in page_blocks.blocks(tensors))


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    """The page of a run with more blocks than a page has."""
    report = tmp_path_factory.mktemp("long") / "long.bin"
    harness.run([harness.EXAMPLES / "long_run", "record", report, "400000", "full", "1000"])
    harness.analyze("html", "-o", report.with_suffix(".html"), report)
    return report.with_suffix(".html")


def test_what_is_left_out_of_a_long_run_is_told(long):
    """The blocks that are kept never sum to more than the level; in a stretch that is kept whole they sum to all of it."""
    assert long.stat().st_size <= MOST
    [tensors] = [of for of in page_data(long)["devices"][0]["history"] if of["level"] == "tensor"]
    assert not tensors["whole"] and tensors["blocks"] < tensors["all"] and tensors["stretches"]
    level, inside = page_blocks.level(page_blocks.blocks(tensors)), 0
    for seq, _, size in tensors["points"]:
        live = level(seq)
        if any(begin <= seq <= end for begin, end in tensors["stretches"]):
            assert live == size
            inside += 1
        else:
            assert live <= size
    assert inside > 10


def test_it_opens_without_errors_and_asks_for_nothing(window, page):
    assert window.errors() == []
    assert window.requests() == [page.resolve().as_uri()]
    assert window.tell("document.querySelectorAll('main > section:not([hidden])').length") >= 5
    assert page.stat().st_size <= MOST


def shown(window):
    return window.tell("document.getElementById('shown').textContent")


def together(window):
    return window.tell("[...document.querySelectorAll('#lines tfoot tr')].at(-1).cells[4].textContent")


def test_brushing_changes_what_is_shown(window, page, analyze_json):
    summary = analyze_json("report", "--all", TRAINING)
    peak = harness.device_of(summary)["tensor"]["peak_bytes"]
    assert "the peak" in shown(window)
    at_peak = together(window)
    assert window.tell(f"gpumem.bytes({peak})") == at_peak
    before = window.tell("document.querySelectorAll('#lines tbody tr').length")
    assert before > 3
    # The chart's first tenth is long before the training.
    box = window.tell(
        "(() => { document.querySelector('#chart svg').scrollIntoView(); const b ="
        " document.querySelector('#chart svg').getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; })()"
    )
    x, y, width, height = box
    window.drag((x + width * 0.08, y + height / 3), (x + width * 0.2, y + height / 3))
    assert "the peak" not in shown(window) and "Selected" in shown(window)
    assert together(window) != at_peak
    assert window.tell("document.getElementById('brushed') !== null")
    window.tell("document.getElementById('whole').click()")
    assert together(window) == at_peak and "the peak" in shown(window)
    # All that came before the peak: the greatest of its moments is shown.
    data = page_data(page)
    moments = data["devices"][0]["moments"]
    high = next(then["time"] for then in moments if then["kind"] == "peak")
    sizes = [then["levels"][0]["bytes"] for then in moments if then["time"] < high]
    assert len(set(sizes)) >= 2
    window.tell(f"gpumem.chooseMoment(0); gpumem.chooseRange({data['from']}, {high - 1})")
    # Its figure may read as the peak's does: each step comes as high.
    assert together(window) == window.tell(f"gpumem.bytes({max(sizes)})") and "the peak" not in shown(window)
    window.tell("document.getElementById('whole').click()")
    assert window.errors() == []


def test_the_keyboard_does_all_that_the_mouse_does(window):
    window.tell("document.getElementById('whole').click(); document.getElementById('to').focus()")
    for _ in range(3):
        window.key("PageDown", 34)
    assert "Selected" in shown(window)
    assert window.tell("document.activeElement.id") == "to"
    window.tell("document.getElementById('whole').click()")
    window.tell("document.querySelector('#flame [tabindex=\"0\"]').focus()")
    window.key("ArrowDown", 40)
    first = window.tell("document.activeElement.getAttribute('aria-label')")
    assert window.tell("document.activeElement.getAttribute('aria-level')") == "2", first
    window.key("ArrowDown", 40)
    window.key("Enter", 13, "\r")
    assert window.tell("document.activeElement.style.width") == "100%"
    assert window.tell("document.getElementById('flame-said').textContent").startswith("Enlarged: ")
    window.key("Escape", 27)
    assert window.tell("document.getElementById('flame-said').textContent") == ""


def test_search_filter_and_sort(window):
    window.tell("document.getElementById('whole').click()")
    type_into = "(() => {{ const i = document.getElementById('{}'); i.value = '{}'; i.dispatchEvent(new Event('input')); }})()"
    window.tell(type_into.format("flame-search", "train.py"))
    found = window.tell("document.querySelectorAll('#flame .found').length")
    assert found > 0 and "train.py" in window.tell("document.getElementById('flame-said').textContent")
    rows = "[...document.querySelectorAll('#lines tbody tr')].filter(r => !r.querySelector('.part')).map(r => r.cells[0].textContent)"
    every = window.tell(rows)
    window.tell(type_into.format("filter", "backward"))
    some = window.tell(rows)
    assert 0 < len(some) < len(every)
    window.tell(type_into.format("filter", ""))
    window.tell("document.querySelector('#lines th button').click()")
    assert window.tell(rows) == sorted(every)
    assert window.tell("document.querySelector('#lines th').getAttribute('aria-sort')") == "ascending"
    assert window.errors() == []


def test_how_far_off_the_nearest_moment_is_stands_at_the_pointer(window, page, long):
    window.open(long)
    window.wait("gpumem.histories().length > 0")
    [tensors] = [of for of in page_data(long)["devices"][0]["history"] if of["level"] == "tensor"]
    x, y, width, height = window.box("#chart canvas")
    for part in range(5, 95):
        place = (x + width * part / 100, y + height * 0.9)
        window.move(*place)
        said = window.tell("document.getElementById('at').innerText")
        if "blocks are left out here" in said:
            break
    else:
        pytest.fail("all of it is whole")
    here, instead = (int(seq.replace(",", "")) for seq in re.findall(r"event ([\d,]+)", said))
    assert not any(begin <= here <= end for begin, end in tensors["stretches"])
    off = re.search(r"event [\d,]+, ((\S+) events? and \S+ \S+ (earlier|later))", said)
    assert int(off[2].replace(",", "")) == abs(instead - here) and (off[3] == "earlier") == (instead < here)
    window.click(*place)
    assert window.tell("gpumem.state.chosen === null && gpumem.state.asked.seq") == here
    told, caption = shown(window), "document.querySelector('#lines caption').innerText"
    assert off[1] in told and f"event {here:,}" in told and f"event {instead:,}" in told
    assert off[1] in window.tell(caption)
    window.tell("document.getElementById('peak').click()")
    assert window.tell("document.getElementById('off')") is None and "than requested" not in window.tell(caption)
    window.open(page)


def test_it_is_drawn_in_light_and_dark(window, tmp_path):
    image = pytest.importorskip("PIL.Image", reason="pillow is not installed")
    brightness = {}
    for scheme in ("light", "dark"):
        picture = tmp_path / f"{scheme}.png"
        window.picture(picture, scheme)
        with image.open(picture) as opened:
            pixels = opened.convert("L")
            assert pixels.width >= 800 and pixels.height >= 800
            brightness[scheme] = sum(i * n for i, n in enumerate(pixels.histogram())) / (pixels.width * pixels.height)
    assert brightness["light"] > 180 and brightness["dark"] < 90


def test_a_line_has_one_colour_in_all_segments(window):
    pieces = window.tell(
        "[...document.querySelectorAll('#pool .segment span')].map(p => [p.title.slice(0, p.title.lastIndexOf(': ')), p.style.background])"
    )
    assert len(pieces) > 3
    colours = {}
    for line, colour in pieces:
        colours.setdefault(line, set()).add(colour)
    assert all(len(found) == 1 for found in colours.values()), colours
    own = [found for found in map(min, colours.values()) if "unknown" not in found]
    assert len(own) == len(set(own)) > 1


def test_only_the_pages_own_program_and_style_are_taken(window, page, tmp_path):
    """Scripts and styles that are added to a page have no effect, nor has a style attribute."""
    text = page.read_text()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)[1]
    assert "unsafe" not in policy and policy.startswith("default-src 'none'; style-src 'sha256-")
    added = "<script>document.title = 'added'</script><style>h1 { width: 77px }</style><h1 id='added' style='height: 77px'>x</h1>"
    changed = tmp_path / "changed.html"
    changed.write_text(text.replace("</body>", added + "</body>"))
    window.open(changed)
    assert window.tell("document.querySelectorAll('main > section:not([hidden])').length") >= 5, "its own program runs"
    assert window.tell("document.title").startswith("GPU memory: ")
    assert window.tell("[getComputedStyle(document.getElementById('added')).width, getComputedStyle(document.getElementById('added')).height].includes('77px')") is False
    assert len(window.errors()) == 3, window.errors()
    # One letter of the program changed: it is another program.
    changed.write_text(text.replace("Nothing was live", "Nothing was here", 1))
    window.open(changed)
    assert window.tell("document.getElementById('file').textContent") == ""
    window.open(page)
    assert window.errors() == []


def test_the_same_capture_gives_the_same_page(analyze, page, tmp_path):
    again = tmp_path / "again.html"
    analyze("html", "-o", again, TRAINING)
    assert again.read_bytes() == page.read_bytes()
