"""Pictures of a job's ranks: the heatmap as text, the page in a headless browser, flamegraphs.

What breaks these tests: a peak that is in no column or in another one, a page whose figures are not those of `--format json`, a
row that is another rank's, a flamegraph whose stacks do not sum to the ranks' peaks."""

import base64
import json
import re
import xml.etree.ElementTree as ElementTree
import zlib

import captures
import harness
import pytest
import svg
from ranks_job import DIFFER, JOB, WORLD, line_of

MIB = 1 << 20
RANKS = captures.job("ranks")
PARTS = {"tensors": "tensor_peak_bytes", "reserved": "reserved_peak_bytes", "process": "device_peak_bytes"}


@pytest.fixture(scope="module")
def told():
    """What JSON has of the job, with what each rank held over time."""
    return harness.unwrapped(harness.run([harness.ANALYZER, "ranks", "--timeline", "--format", "json", RANKS]).stdout)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    out = tmp_path_factory.mktemp("ranks-page") / "ranks.html"
    done = harness.run([harness.ANALYZER, "ranks", "-o", out, "--mesh", f"pp=2,dp={WORLD // 2}", RANKS])
    assert done.stdout.startswith(f"{out}: ")
    return out


@pytest.fixture(scope="module")
def window(window):
    # It unpacks its figures beside the loading.
    waited = "new Promise(done => { const look = () => document.documentElement.dataset.ready ? done(true) : requestAnimationFrame(look); look(); })"
    assert window.call("Runtime.evaluate", expression=waited, awaitPromise=True, returnByValue=True)["result"]["value"]
    return window


def test_each_peak_is_in_the_column_of_its_moment(told, analyze_json):
    map_, ranks = told["timeline"], told["ranks"]
    assert map_["column_ns"] & (map_["column_ns"] - 1) == 0 and map_["from_unix_ns"] % map_["column_ns"] == 0
    assert 32 < map_["columns"] <= 256 and [row["rank"] for row in map_["ranks"]] == [row["rank"] for row in ranks]
    assert told["clocks"] == []
    for row, over in zip(ranks, map_["ranks"]):
        for part, key in enumerate(PARTS.values()):
            assert max(cell[part] for cell in over["greatest"]) == row[key], (row["rank"], key)
        assert over["first_column"] + len(over["greatest"]) <= map_["columns"]
        if row["rank"] % 5:
            continue
        started = analyze_json("report", "--all", row["file"])["process"]["started_unix_ns"]
        [peak] = [of for of in analyze_json("timeline", row["file"])["devices"][0]["peaks"] if of["level"] == "tensor"]
        column = (started + peak["time_ns"] - map_["from_unix_ns"]) // map_["column_ns"] - over["first_column"]
        assert over["greatest"][column][0] == row["tensor_peak_bytes"]


def drawn(*arguments, locale="C.UTF-8"):
    done = harness.run([harness.ANALYZER, "ranks", "--timeline", *arguments, RANKS], env={"LC_ALL": locale})
    lines = done.stdout.splitlines()
    rows = [re.fullmatch(r"([* ]) +(\d+) (.*) +([\d.]+ [KMG]?i?B)", line) for line in lines[4:]]
    return lines, {int(row[2]): row for row in rows if row}


def test_a_row_for_each_rank_marks_those_that_differ(told):
    lines, rows = drawn()
    assert lines[0].startswith("Rank 11 holds 64.0 MiB more than its peers")
    assert list(rows) == list(range(WORLD))
    assert {rank for rank, row in rows.items() if row[1] == "*"} == DIFFER
    assert {rank for rank, row in rows.items() if "█" in row[3]} == {3}
    assert {rank for rank, row in rows.items() if "✕" in row[3]} == {12, 13}
    assert rows[3][4] == "105 MiB" and rows[0][4] == "80.6 MiB"
    assert {len(row[0]) for row in rows.values()} == {80}
    assert any(re.match(r" +╵0[.:0]*( s)? ", line) for line in lines)
    assert any("0 B ▁▂▃▄▅▆▇█ 105 MiB   tensors, since " in line for line in lines)
    # Each row is where the rank ran: the same columns as in JSON.
    map_ = told["timeline"]
    for rank, row in rows.items():
        cells = line_cells(row)
        over = map_["ranks"][rank]
        begin = over["first_column"] / map_["columns"] * len(cells)
        assert abs(next(at for at, cell in enumerate(cells) if cell != " ") - begin) <= 2, rank


def line_cells(row):
    """A row's cells: what stands between its label and its figure."""
    return row[0][len("*  11 ") :][: 80 - len("*  11 ") - 10]


def test_letters_where_the_locale_has_no_blocks():
    lines, rows = drawn("--level", "process", locale="C")
    assert "\n".join(lines).isascii()
    assert {rank for rank, row in rows.items() if "@" in row[3]} >= {11}
    assert rows[11][4] == "792 MiB"
    assert {rank for rank, row in rows.items() if "x" in row[3]} == {12, 13}


def test_a_band_for_each_place():
    lines, rows = drawn("--mesh", f"pp=2,dp={WORLD // 2}")
    assert [line for line in lines if line.startswith("pp=")] == [
        f"pp={stage}: {WORLD // 2} ranks, median of the tensors' peaks 80.6 MiB" for stage in (0, 1)
    ]
    assert list(rows) == list(range(WORLD))


def unpacked(page):
    """The figures that a page carries, and its cells by part, rank and column."""
    text = re.search(r'<script type="text/plain" id="data">(.*?)</script>', page.read_text(), re.S)[1]
    data, packed = (zlib.decompress(base64.b64decode(part)) for part in text.split("\n"))
    data, cells, at = json.loads(data), [], 0
    for _ in range(3 * len(json.loads(json.dumps(data["ranks"]["rank"])))):
        row, now = [], 0
        for _ in range(data["columns"]):
            value = shift = 0
            while True:
                byte, at = packed[at], at + 1
                value |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:
                    break
            now += (value >> 1) ^ -(value & 1)
            row.append(now)
        cells.append(row)
    assert at == len(packed)
    return data, cells


def test_the_pages_figures_are_those_of_json(page, told):
    data, cells = unpacked(page)
    ranks, map_ = told["ranks"], told["timeline"]
    assert data["units"] == [1, 1, 1]
    for part, (name, key) in enumerate(PARTS.items()):
        assert data["ranks"][name] == [row[key] for row in ranks]
        for rank, over in enumerate(map_["ranks"]):
            row = cells[part * len(ranks) + rank]
            first = over["first_column"]
            held = [cell[part] + 1 for cell in over["greatest"]]
            assert row == [0] * first + held + [0] * (map_["columns"] - first - len(held))
    assert data["ranks"]["ended"] == [row["ended"] for row in ranks]
    assert [of + map_["from_unix_ns"] for of in data["ranks"]["ended_ns"]] == [row["at_unix_ns"] for row in ranks]
    assert data["column_ns"] == map_["column_ns"]


def said(window):
    return window.tell("document.getElementById('said').textContent")


def place_of(window, rank, column):
    """Where a cell is in the window."""
    return window.tell(
        "(() => { document.getElementById('map-head').scrollIntoView(); const box = gpumem.canvas.getBoundingClientRect();"
        f" const [top, tall] = gpumem.topOf(gpumem.data.ranks.rank.indexOf({rank}));"
        f" return [box.x + gpumem.acrossMap({column} + 0.5, box.width), box.y + top + tall / 2]; }})()"
    )


def mouse(window, at, kind="mouseMoved", **more):
    window.call("Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1], **more)


def test_pointing_says_rank_time_and_bytes(window, page, told):
    assert window.errors() == []
    assert window.requests() == [page.resolve().as_uri()]
    assert window.tell("[...document.querySelectorAll('#answer p')].map(p => p.textContent)")[0].startswith("Rank 11 holds 64.0 MiB more")
    window.tell("gpumem.choose('part', 0); gpumem.choose('mode', 0)")
    map_ = told["timeline"]
    for rank in (0, 3, 9, WORLD - 1):
        over = map_["ranks"][rank]
        cell = max(range(len(over["greatest"])), key=lambda at: over["greatest"][at][0])
        mouse(window, place_of(window, rank, over["first_column"] + cell))
        words = said(window)
        peak = window.tell(f"gpumem.bytes({told['ranks'][rank]['tensor_peak_bytes']})")
        assert words.startswith(f"Rank {rank}, ") and f": tensors {peak}; its peers' median " in words
        assert f"pp={rank * 2 // WORLD}" in words and told["ranks"][rank]["host"] in words
    mouse(window, place_of(window, 13, map_["columns"] - 1))
    assert "tensors does not run" in said(window)


def test_a_click_pins_a_rank_and_a_level_changes_all(window, told):
    window.tell("gpumem.choose('part', 0); gpumem.choose('mode', 0)")
    at = place_of(window, 5, told["timeline"]["ranks"][5]["first_column"] + 1)
    for kind in ("mousePressed", "mouseReleased"):
        mouse(window, at, kind, button="left", clickCount=1)
    assert window.tell("document.getElementById('pinned-head').textContent") == "Rank 5 differs from its peers"
    facts = window.tell("document.getElementById('pinned').textContent")
    row = told["ranks"][5]
    for key in PARTS.values():
        assert window.tell(f"gpumem.bytes({row[key]})") in facts
    assert line_of(JOB, "return x + self.down(") in facts and row["file"] in facts
    course = window.tell("document.getElementById('course').getAttribute('d')")
    assert course.startswith("M") and course.count("V") > 3
    most = "document.getElementById('scale-most').textContent"
    groups = "[...document.querySelectorAll('#groups tbody tr')].map(r => [...r.cells].slice(0, 5).map(c => c.textContent))"
    for part, key in enumerate(PARTS.values()):
        window.tell(f"(s => {{ s.value = {part}; s.dispatchEvent(new Event('change')); }})(document.getElementById('part'))")
        peaks = [of[key] for of in told["ranks"]]
        assert window.tell(most) == window.tell(f"gpumem.bytes({max(peaks)})")
        rows = window.tell(groups)
        assert len(rows) == 2
        for stage, cells in enumerate(rows):
            own = sorted(peaks[stage * WORLD // 2 : (stage + 1) * WORLD // 2])
            wanted = [own[0], own[(len(own) - 1) // 2], own[-1]]
            assert cells == [f"pp={stage}", str(len(own)), *(window.tell(f"gpumem.bytes({value})") for value in wanted)]
        assert colour_of_the_most(window, told["timeline"], part) == window.tell("[...gpumem.ramp(0).slice(-3)]")
    window.tell("gpumem.choose('mode', 1)")
    assert window.tell(most).startswith("+")
    # Inexact figures are marked as such: 5 is more than 3 units and up to 4.
    assert window.tell("gpumem.data.units[0] = 1048576; gpumem.cellText(0, 5)") == "3.00 MiB to 4.00 MiB"
    window.tell("gpumem.data.units[0] = 1")
    assert window.errors() == []


def colour_of_the_most(window, map_, part):
    """What is drawn where a rank held most of all."""
    most = {rank: max((cell[part], at) for at, cell in enumerate(of["greatest"])) for rank, of in enumerate(map_["ranks"])}
    rank = max(most, key=lambda rank: most[rank][0])
    column = map_["ranks"][rank]["first_column"] + most[rank][1]
    return window.tell(
        "(() => { gpumem.choose('pinned', -1); gpumem.leave(); const [top, tall] = gpumem.topOf(gpumem.data.ranks.rank.indexOf(%d)), density = gpumem.canvas.width / gpumem.canvas.clientWidth;"
        " return [...gpumem.canvas.getContext('2d').getImageData(gpumem.acrossMap(%d + 0.5, gpumem.canvas.clientWidth) * density, (top + tall / 2) * density, 1, 1).data].slice(0, 3); })()"
        % (rank, column)
    )


def test_the_keyboard_goes_from_rank_to_rank(window, told):
    window.tell("gpumem.choose('part', 0); gpumem.choose('mode', 0); gpumem.choose('pinned', 0); gpumem.leave(); gpumem.canvas.focus()")
    window.key("ArrowDown", 40)
    window.key("ArrowRight", 39)
    assert said(window).startswith("Rank 1, ")
    for _ in range(3):
        window.key("ArrowDown", 40)
    window.key("Enter", 13, "\r")
    assert window.tell("gpumem.data.ranks.rank[gpumem.state.pinned]") == 4
    window.key("Escape", 27)
    assert window.tell("document.getElementById('pinned-section').hidden")


def test_ranks_are_sorted_and_found(window, told):
    rows = "[...document.querySelectorAll('#ranks tbody tr.row')].map(r => Number(r.cells[0].textContent))"
    sort = "[...document.querySelectorAll('#ranks th button')].find(b => b.textContent === '{}').click()"
    assert window.tell(rows) == list(range(WORLD))
    window.tell(sort.format("tensors"))
    by_peak = sorted(told["ranks"], key=lambda row: (-row["tensor_peak_bytes"], row["rank"]))
    assert window.tell(rows) == [row["rank"] for row in by_peak]
    find = "(i => {{ i.value = '{}'; i.dispatchEvent(new Event('input')); }})(document.getElementById('find'))"
    window.tell(find.format("killed"))
    assert window.tell(rows) == [13]
    window.tell(find.format("") + ";" + sort.format("rank"))
    assert window.tell(rows) == list(range(WORLD))
    ended = window.tell("[...document.querySelectorAll('#endings tbody tr')].map(r => r.cells[0].textContent)")
    # They run beside one another: which ended first is the machine's doing.
    assert sorted(ended) == ["Rank 12", "Rank 13"]
    assert window.tell("document.querySelectorAll('#outliers details').length") == len(DIFFER)
    leak = window.tell("document.querySelector('#outliers [data-rank=\"3\"]').textContent")
    assert line_of(JOB, "kept.append(torch.zeros(1 << 20") in leak
    assert window.errors() == []


def test_it_is_drawn_in_light_and_dark_and_on_a_phone(window, tmp_path):
    image = pytest.importorskip("PIL.Image", reason="pillow is not installed")
    brightness = {}
    for scheme in ("light", "dark"):
        window.picture(tmp_path / f"{scheme}.png", scheme)
        with image.open(tmp_path / f"{scheme}.png") as opened:
            pixels = opened.convert("L")
            brightness[scheme] = sum(i * n for i, n in enumerate(pixels.histogram())) / (pixels.width * pixels.height)
    assert brightness["light"] > 180 and brightness["dark"] < 90
    window.call("Emulation.setDeviceMetricsOverride", width=390, height=900, deviceScaleFactor=1, mobile=True)
    assert window.tell("document.documentElement.scrollWidth") == 390
    window.call("Emulation.clearDeviceMetricsOverride")


def flamegraph(out, *arguments):
    done = harness.run([harness.ANALYZER, "ranks", "--flamegraph", out, *arguments, RANKS])
    return done.stdout, svg.boxes(out)


def test_flamegraphs_sum_to_the_peaks(told, tmp_path):
    peaks = [row["tensor_peak_bytes"] for row in told["ranks"]]
    words, boxes = flamegraph(tmp_path / "sum.svg")
    assert boxes[0].width == sum(peaks) and min(svg.own_widths(boxes)) >= 0
    assert f"of tensors, the sum of {WORLD} ranks" in words
    leaks = [box for box in boxes if line_of(JOB, "kept.append(torch.zeros(1 << 20").rpartition("/")[2] in box.title]
    assert {box.width for box in leaks} >= {24 * MIB}
    _, boxes = flamegraph(tmp_path / "mean.svg", "--of", "mean")
    assert boxes[0].width == sum(peaks) // WORLD
    _, every = flamegraph(tmp_path / "native.svg", "--native")
    assert every[0].width == sum(peaks) and len(every) > len(svg.boxes(tmp_path / "sum.svg"))


def test_a_rank_beside_its_peers_mean(told, tmp_path):
    peaks = [row["tensor_peak_bytes"] for row in told["ranks"]]
    out = tmp_path / "rank.svg"
    words, boxes = flamegraph(out, "--of", "3", "--mesh", f"pp=2,dp={WORLD // 2}")
    assert boxes[0].width == peaks[3]
    mean = sum(peaks[: WORLD // 2]) - peaks[3]
    more = (peaks[3] - mean // (WORLD // 2 - 1)) / MIB
    assert words == f"{out}: rank 3 has {peaks[3] / MIB:.0f} MiB of tensors, {more:.1f} MiB more than its {WORLD // 2 - 1} peers' mean\n"
    # What only this rank has is red: the calls at the end of its stacks.
    name = line_of(JOB, "kept.append(torch.zeros(1 << 20").rpartition("/")[2]
    [leak] = [box for box in boxes if name in box.title]
    assert leak.width == 24 * MIB
    above = [box for box in boxes if leak.start <= box.start < leak.start + leak.width]
    [top] = [box for box in above if box.depth == min(box.depth for box in above)]
    red, green, blue = bytes.fromhex(fills(out)[top.start, top.depth].removeprefix("#"))
    assert red > green + 50 and red > blue + 50


def fills(out):
    """The colours of a flamegraph's boxes by their places."""
    groups = ElementTree.parse(out).getroot().iter(f"{svg.SVG}rect")
    boxes = [of for of in groups if f"{svg.FLAMEGRAPH}w" in of.keys()]
    return {(int(of.get(f"{svg.FLAMEGRAPH}x")), float(of.get("y"))): of.get("fill") for of in boxes}


@pytest.mark.parametrize(
    "arguments, status, says",
    [
        (["--timeline", "-o", "x"], 2, "cannot be used with"),
        (["-o", "x", "--flamegraph", "y"], 2, "cannot be used with"),
        (["-o", "x", "--format", "json"], 2, "cannot be used with"),
        (["--all", "--timeline"], 2, "cannot be used with"),
        (["--level", "process"], 2, "--timeline"),
        (["--of", "mean"], 2, "--flamegraph"),
        (["--flamegraph", "x", "--of", "third"], 2, "expected sum, mean or a rank's number"),
        (["--flamegraph", "x", "--of", "99"], 1, "rank 99 has no capture: name one of those that `ranks --all` shows"),
    ],
)
def test_what_cannot_be_drawn_is_said(arguments, status, says, tmp_path):
    done = harness.run([harness.ANALYZER, "ranks", *arguments, RANKS], cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout) == (status, "")
    assert says in done.stderr
    assert list(tmp_path.iterdir()) == []
