"""The maps of memory on the page: PyTorch's segments, other driver allocations, address space with VMM handles,
pools. In a headless browser, at the peak, the end, a failure and events between.

What breaks these tests: a driver block in the wrong map or in none, a segment whose blocks or name differ from
PyTorch's, a mapping that outlives its unmapping, a pool whose bytes are not those of the ledger, a map that keys do
not move, a sum that is not that of the JSON views."""

import functools
import json
import re

import captures
import harness
import page_blocks
import page_maps
import pytest
from browser import page_data


class Run:
    """A capture with its page: memory of all kinds, expandable segments, cudaMallocAsync."""

    def __init__(self, name, folder):
        self.report, self.page = captures.capture(name), folder / "report.html"
        harness.analyze("html", "-o", self.page, self.report)
        self.data = page_data(self.page)

    def device(self, number=0):
        return next(place for place, of in enumerate(self.data["devices"]) if of["device"] == number)

    def blocks(self, level, number=0):
        of = self.data["devices"][self.device(number)]["history"]
        return page_blocks.blocks(next(history for history in of if history["level"] == level))

    def events(self, number=0):
        """The peak, the end, the failure, and events from all over the driver level's blocks."""
        device, found = self.data["devices"][self.device(number)], self.blocks("driver", number)
        seqs = [found[len(found) * part // 3].made for part in range(1, 3)]
        seqs += [of["seq"] for of in device["moments"] if of["kind"] in ("peak", "end")]
        return sorted({*seqs, *(of["seq"] for of in self.data["failures"] if of["device"] == number)})


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return functools.lru_cache(maxsize=None)(lambda name: Run(name, tmp_path_factory.mktemp(name)))


@pytest.fixture(scope="module")
def page(runs):
    return runs("kinds").page


@pytest.fixture
def show(window, runs):
    """Opens the page of a run, with the blocks of a device."""

    def opened(name, number=0):
        run = runs(name)
        window.resize(1280, 1400)
        window.open(run.page)
        window.wait("gpumem.histories().length > 0")
        if number:
            window.tell(f"(() => {{ const s = document.getElementById('device'); s.value = {run.device(number)}; s.dispatchEvent(new Event('change')); }})()")
            window.wait("gpumem.histories().length > 0")
        return run

    return opened


def tab(window, name):
    window.tell(f"document.getElementById('map-tab-{name}').click()")


def figures(window):
    return dict(window.tell("[...document.querySelectorAll('#map-figures dd')].map(d => [d.dataset.figure, Number(d.dataset.bytes)])"))


def sums(window):
    """The driver level, PyTorch's segments, the others."""
    return window.tell("[...document.querySelectorAll('#map-sum [data-bytes]')].map(of => Number(of.dataset.bytes))")


def groups(window):
    """Titles and rows: bytes of each row and of its pieces by what they look like."""
    return window.tell(
        "gpumem.mapGroups().map(g => ({title: g.title, bytes: g.bytes, rows: g.rows.map(r => ({label: r.label, bytes: r.bytes,"
        " pieces: r.pieces.map(p => ({bytes: p.bytes, look: p.look, colour: p.colour, says: p.says()}))}))}))"
    )


def part(row, *, free):
    """Bytes of the pieces of a segment's row that are free, or are not."""
    return sum(piece["bytes"] for piece in row["pieces"] if (" free" in piece["says"].split("·")[0]) == free)


@pytest.mark.parametrize("name, number", [("kinds", 0), ("kinds", 3), ("expandable", 0), ("async", 0)])
def test_both_maps_are_the_driver_level(show, window, name, number):
    run = show(name, number)
    for seq in run.events(number):
        window.tell(f"gpumem.chooseEvent({seq})")
        tab(window, "driver")
        level, pool, others = sums(window)
        reserved, ledger = page_maps.pool(run.report, seq, number)["reserved_bytes"], page_maps.ledger(run.report, seq, number)
        assert level == pool + others == ledger["driver_bytes"]
        assert pool == reserved
        wanted, shown = page_maps.beside_pool(ledger, name != "async"), groups(window)
        assert others == sum(wanted.values()) == figures(window)["other driver allocations"]
        own = {of["title"]: of["bytes"] for of in shown if "host" not in of["title"]}
        assert sum(own.values()) == others
        if "" not in wanted:
            assert own == {library: size for library, size in wanted.items() if size}
        assert all(of["bytes"] == sum(row["bytes"] for row in of["rows"]) for of in shown)
        assert figures(window).get("pinned host memory", 0) == ledger["host_bytes"]
        assert figures(window).get("of that managed", 0) == ledger["managed_bytes"]
        assert window.tell("document.getElementById('map-said').textContent") == ""
    assert level == page_maps.driver_level(run.report, seq, number)


@pytest.mark.parametrize("name, number", [("kinds", 0), ("kinds", 2), ("expandable", 0)])
def test_segments_are_those_of_fragmentation(show, window, name, number):
    run = show(name, number)
    tab(window, "segments")
    for seq in run.events(number):
        window.tell(f"gpumem.chooseEvent({seq})")
        of_pool = page_maps.pool(run.report, seq, number)
        wanted, [group, *unmapped] = of_pool["segments"], groups(window)
        assert figures(window)["reserved"] == of_pool["reserved_bytes"] == group["bytes"] + sum(of["bytes"] for of in unmapped)
        assert [row["bytes"] for row in group["rows"]] == [of["bytes"] for of in wanted]
        assert [part(row, free=False) for row in group["rows"]] == [of["live_bytes"] for of in wanted]
        assert [part(row, free=True) for row in group["rows"]] == [of["cached_bytes"] for of in wanted]
        expandable = ["expandable" in row["pieces"][0]["says"] for row in group["rows"]]
        assert expandable == [of["expandable"] for of in wanted]
    if name == "expandable":
        made = [int(re.search(r"of (\d+) handles?", row["pieces"][0]["says"])[1]) for row in group["rows"]]
        handles = page_maps.Space(run.report, seq).handles
        assert sum(made) == len(handles) and max(made) > 1


def test_every_kind_has_its_colour_and_can_be_pinned(show, window):
    run = show("kinds")
    window.tell(f"gpumem.chooseEvent({run.data['failures'][0]['seq']})")
    tab(window, "driver")
    words = window.tell("document.getElementById('map-legend').textContent")
    for word in ("cudaMalloc)", "managed", "array", "VMM handle", "cudaMallocAsync", "graph's node", "pinned host", "registered"):
        assert word in words, word
    [first, second, *_] = groups(window)[0]["rows"]
    assert (first["bytes"], second["bytes"]) == (33 << 20, 7 << 20) and "sim_cuda.py:" in first["label"]
    # The bars are in proportion to bytes.
    wide = window.tell(
        "(() => { const c = document.getElementById('map-rows-0'), x = c.getContext('2d'), count = y => { const d = x.getImageData(300, y, c.width - 300, 1).data;"
        " let n = 0; for (let i = 0; i < d.length; i += 4) if (d[i] === 0x17 && d[i + 1] === 0xbe) n++; return n; }; return [count(9), count(27)]; })()"
    )
    assert wide[0] > 900 and abs(wide[1] - wide[0] * 7 / 33) <= 2, wide
    x, y, *_ = window.box("#map-rows-0")
    window.move(x + 310, y + 27)
    said = window.tell("document.getElementById('map-at').textContent")
    assert "7,340,032 bytes" in said and "libffi" in said and "cudaMallocAsync" in said
    window.click(x + 310, y + 27)
    assert "7,340,032 bytes" in window.tell("document.getElementById('pinned').textContent")
    assert window.tell("gpumem.history().level") == "driver"


@pytest.mark.parametrize("name, number", [("kinds", 0), ("kinds", 1), ("expandable", 0)])
def test_address_space_is_what_was_recorded(show, window, name, number):
    run = show(name, number)
    tab(window, "vmm")
    made = [seq for seq, *_, kind, _, _, _ in page_maps.events(run.report) if kind in (page_maps.MAP, page_maps.UNMAP, page_maps.ADDRESS)]
    for seq in {*run.events(number), *made[:: max(1, len(made) // 5)], made[-1]}:
        window.tell(f"gpumem.chooseEvent({seq})")
        wanted = page_maps.Space(run.report, seq).figures(number)
        assert figures(window) == wanted, seq
        rows = groups(window)
        assert rows[0]["bytes"] == wanted["address space reserved"]
        for row in rows[0]["rows"]:
            assert sum(piece["bytes"] for piece in row["pieces"]) == row["bytes"]
        free = sum(piece["bytes"] for row in rows[0]["rows"] for piece in row["pieces"] if "nothing is mapped" in piece["says"])
        assert free == wanted["of that unmapped"]
        nowhere = [of["bytes"] for of in rows if "nowhere" in of["title"]]
        assert nowhere == ([wanted["mapped nowhere"]] if wanted["mapped nowhere"] else [])


def test_a_handle_at_two_addresses_and_one_of_another_gpu(show, window):
    run = show("kinds")
    tab(window, "vmm")
    window.tell(f"gpumem.chooseEvent({run.data['failures'][0]['seq']})")
    pieces = [piece for row in groups(window)[0]["rows"] for piece in row["pieces"]]
    twice = [piece for piece in pieces if piece["look"] == "striped"]
    assert [piece["bytes"] for piece in twice] == [4 << 20] * 2 and all("2 addresses" in piece["says"] for piece in twice)
    [other] = [piece for piece in pieces if "memory of GPU 1" in piece["says"]]
    assert other["bytes"] == 8 << 20
    # After the failure one of the two is unmapped, and the handle that was nowhere released.
    last = [of["seq"] for of in run.data["devices"][0]["moments"] if of["kind"] == "end"]
    window.tell(f"gpumem.chooseEvent({last[0]})")
    assert figures(window)["handles mapped more than once"] == 0 == figures(window)["mapped nowhere"]


@pytest.mark.parametrize("name", ["kinds", "async"])
def test_pools_are_those_of_the_ledger(show, window, name):
    run = show(name)
    tab(window, "pools")
    live = {16: "live in CUDA's pools", 32: "live in graphs"}
    for seq in run.events():
        window.tell(f"gpumem.chooseEvent({seq})")
        ledger, shown = page_maps.ledger(run.report, seq, 0), figures(window)
        for kind, given, bit in (("pool", "CUDA's pools, given by the card", 16), ("graph_unused", "for graphs, given by the card", 32)):
            used = sum(block.size for block in page_blocks.live(run.blocks("driver"), seq) if block.kind & bit)
            assert shown.get(live[bit], 0) == used
            assert shown.get(given, 0) - used == page_maps.unused(ledger, kind)
        assert shown.get("PyTorch's pools", 0) == page_maps.pool(run.report, seq, 0)["reserved_bytes"]
    if name == "async":
        text = window.tell("document.getElementById('map').textContent")
        assert "23 memory nodes of 1 graph" in text and "no event says when a graph ends" in text


def test_private_pools_are_as_pytorch_has_them(show, window):
    run = show("kinds")
    own = json.loads(re.search(r"SEGMENTS (.*)", captures.printed("kinds"))[1])
    wanted = {}
    for (high, low), kind, _, total, allocated in own:
        name = f"private pool {high}.{low}" if high or low else "default pool"
        of = wanted.setdefault((name, kind), [0, 0, 0])
        wanted[name, kind] = [of[0] + 1, of[1] + total, of[2] + allocated]
    assert {("default pool", "small"), ("default pool", "large")} < {*wanted} and len({name for name, _ in wanted}) == 3
    window.tell(f"gpumem.chooseEvent({run.data['failures'][0]['seq']})")
    tab(window, "pools")
    found = {}
    for of in groups(window):
        named = re.match(r"PyTorch's ((?:private pool \d+\.\d+|default pool)).*blocks (up to|above) 1 MiB", of["title"])
        if named:
            key = named[1], {"up to": "small", "above": "large"}[named[2]]
            found[key] = [len(of["rows"]), of["bytes"], sum(part(row, free=False) for row in of["rows"])]
    assert found == wanted
    streams = {stream for pool, _, stream, *_ in own if pool == [0, 0]}
    assert f"Of {len(streams)} streams" in window.tell("document.getElementById('map').textContent")
    # A segment that is empty later keeps its name, by what lay in it before.
    last = [of["seq"] for of in run.data["devices"][0]["moments"] if of["kind"] == "end"]
    window.tell(f"gpumem.chooseEvent({last[0]})")
    assert "not known" not in window.tell("document.getElementById('map').textContent")


def test_every_map_steps_by_its_events(show, window):
    run = show("kinds")
    failure = run.data["failures"][0]["seq"]
    for name in ("segments", "driver", "vmm", "pools"):
        window.tell(f"gpumem.chooseEvent({failure})")
        tab(window, name)
        window.tell("document.getElementById('event-before').click()")
        before = window.tell("gpumem.state.chosen.seq")
        assert before < failure
        window.tell("document.getElementById('map-rows-0').focus()")
        window.key("ArrowLeft", 37)
        earlier = window.tell("gpumem.state.chosen.seq")
        assert earlier < before and window.tell("document.activeElement.id") == "map-rows-0"
        window.key("ArrowRight", 39)
        assert window.tell("gpumem.state.chosen.seq") == before
        window.tell(f"gpumem.chooseEvent({earlier}); document.getElementById('failure-after').click()")
        assert window.tell("gpumem.state.chosen.seq") == failure
        window.key("ArrowDown", 40)
        said = window.tell("document.getElementById('map-at').textContent")
        assert said == groups(window)[0]["rows"][0]["pieces"][0]["says"]
        if name == "vmm":
            seqs = [seq for seq, *_, kind, _, _, _ in page_maps.events(run.report) if kind == page_maps.MAP]
            window.tell(f"gpumem.chooseEvent({seqs[-1]}); document.getElementById('event-before').click()")
            assert window.tell("gpumem.state.chosen.seq") == seqs[-2]
    window.tell("document.getElementById('map-tab-pools').focus()")
    window.key("ArrowRight", 39)
    assert window.tell("gpumem.state.map") == "segments" and window.tell("document.activeElement.id") == "map-tab-segments"
    window.key("ArrowLeft", 37)
    window.key("ArrowLeft", 37)
    assert "map=vmm" in window.tell("location.hash")
    link = window.tell("location.hash")
    window.call("Page.navigate", url="about:blank")
    window.call("Page.navigate", url=run.page.resolve().as_uri() + link)
    window.wait("document.readyState === 'complete' && globalThis.gpumem?.state.map === 'vmm'")
    assert window.errors() == []


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_the_maps_fit_and_are_accessible(show, window, width, tmp_path):
    """At any width, light and dark: no map overflows, and axe-core finds nothing serious."""
    show("kinds")
    axe = harness.ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
    window.resize(width, 1200)
    if axe.is_file():
        window.tell(axe.read_text() + "; undefined")
    for scheme in ("light", "dark"):
        for name in ("segments", "driver", "vmm", "pools"):
            tab(window, name)
            window.wait(f"document.documentElement.scrollWidth <= {width}")
            # The page draws the canvases again once the browser reports the new width.
            window.wait("[...document.querySelectorAll('#map canvas')].every(c => c.clientWidth === document.getElementById('map').clientWidth)")
            if not axe.is_file():
                continue
            window.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            window.tell("axe.run('#map-section').then(found => { globalThis.found = found.violations; }); undefined")
            window.wait("globalThis.found !== undefined")
            found = window.tell("globalThis.found.map(v => [v.id, v.impact, v.nodes.slice(0, 3).map(n => n.html.slice(0, 160) + ' ' + n.failureSummary)])")
            window.tell("globalThis.found = undefined")
            assert [of for of in found if of[1] in ("serious", "critical")] == [], json.dumps(found, indent=1)
        window.picture(tmp_path / f"{scheme}.png", scheme)
    assert window.errors() == []
    if not axe.is_file():
        pytest.skip("what is accessible was not checked: scripts/web installs axe-core")
