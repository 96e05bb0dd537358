"""The first section of the page, and its tables of the whole run, in a headless browser; a page of a part of a run;
paper.

What breaks these tests: a figure that is not that of its command, an answer that is not the report's, a link that
sets another moment, a part of a run that shows what was left out of it, a moment near the requested one that is
shown as the requested one, controls on paper."""

import json
import re

import harness
import page_blocks
import pytest
from browser import page_data


@pytest.fixture(scope="module", params=["graphs", "demo"])
def report(request):
    """A run that fails, and one that does not."""
    return harness.CAPTURES / f"{request.param}.bin"


@pytest.fixture(scope="module")
def page(report, tmp_path_factory):
    out = tmp_path_factory.mktemp("sections") / "report.html"
    harness.analyze("html", "-o", out, report)
    return out


@pytest.fixture
def at(window, page):
    """The page with its blocks, as opened."""
    show(window, page)
    return window


def show(window, page, target=""):
    window.call("Emulation.setEmulatedMedia", media="screen", features=[{"name": "prefers-color-scheme", "value": "light"}])
    window.resize(1280, 1400)
    window.call("Page.navigate", url="about:blank")
    window.events.clear()
    window.call("Page.navigate", url=page.resolve().as_uri() + target)
    window.wait("document.readyState === 'complete' && globalThis.gpumem?.histories().length > 0")


def table(window, name):
    """A table's rows of the body: the text of each cell, and its exact bytes where it has some."""
    return window.tell(
        f"[...document.querySelectorAll('#{name} tbody tr')].map(r => [...r.cells].map(c => "
        "({text: c.innerText.trim(), bytes: c.querySelector('[data-bytes]') ? Number(c.querySelector('[data-bytes]').dataset.bytes) : null})))"
    )


def text(window, selector):
    return window.tell(f"document.querySelector({selector!r}).innerText")


def count(cell):
    return int(cell["text"].replace(",", ""))


def test_the_reports_answer_stands_first(at, report):
    """The failure, the cause and the holders of the memory are the report's; so is each peak, to the byte."""
    shown = harness.analyze(report).stdout
    plain = re.sub(r"\n {16}", " ", shown)
    answer = at.tell("[...document.querySelectorAll('#answer p')].map(p => p.innerText)")
    assert at.box("#answer")[1] < 200 and at.tell("document.querySelector('header').firstElementChild.nextElementSibling.id") == "answer"
    failures = page_data_of(at, "failure_count")
    if failures:
        asked = re.search(r"^OUT OF MEMORY +(.*)$", plain, re.M)[1]
        assert answer[0] == f"Out of memory: {asked}. Show that moment"
        cause = harness.analyze_json("oom", report)["cause"]
        assert cause["what"] in answer[1] and cause["advice"] in answer[1]
        held = at.tell("[...document.querySelectorAll('#cause [data-bytes]')].map(s => Number(s.dataset.bytes))")
        assert held == [of["bytes"] for of in cause["owners"]] + [cause["live_bytes"]]
    else:
        assert answer[0] == "No allocation failed because memory ran out." and "OUT OF MEMORY" not in shown
    [ledger] = harness.analyze_json("ledger", report)
    [peak] = at.tell("[...document.querySelectorAll('#answer .peak')].map(p => [...p.querySelectorAll('[data-bytes]')].map(s => Number(s.dataset.bytes)))")
    lines = {}
    for row in harness.analyze_json("lines", "--at", str(ledger["seq"]), "--device", "0", report):
        assert lines.setdefault((row["file"], row["line"], row["function"], row.get("node")), row["bytes"]) == row["bytes"]
    assert (peak[0], peak[-1]) == (ledger["bytes"], sum(lines.values()))
    assert peak[1] <= max(lines.values()) and peak[1:-1] == sorted(peak[1:-1], reverse=True)
    assert text(at, "#claim").startswith("exact: ")


def page_data_of(window, key):
    return window.tell(f"gpumem.data.{key}")


def test_a_link_of_the_answer_sets_the_moment(at, report):
    if page_data_of(at, "failure_count"):
        at.tell("document.querySelector('#outcome a.moment').click()")
        at.wait("document.getElementById('shown').textContent.includes('the failure')")
        assert at.tell("gpumem.level().bytes") == harness.analyze_json("oom", report)["cause"]["live_bytes"]
        assert at.tell("document.activeElement.id") == "timeline-head"
    at.tell("document.querySelector('#leaks-said a.moment').click()")
    leaks = harness.analyze_json("leaks", report)
    at.wait(f"gpumem.level().bytes === {leaks['bytes']}")
    at.tell("document.querySelector('.peak a.moment').click()")
    at.wait("document.getElementById('shown').textContent.includes('the peak')")


def test_categories_are_those_of_lines(at, report):
    rows = table(at, "categories")
    for moment, column in (("peak", 1), ("end", 4)):
        wanted = harness.analyze_json("lines", "--by", "category", "--at", moment, report)
        found = {row[0]["text"]: (row[column]["bytes"], count(row[column + 2])) for row in rows}
        assert {name: of for name, of in found.items() if of[0]} == {of["category"]: (of["bytes"], of["blocks"]) for of in wanted if of["bytes"]}
    foot = at.tell("[...document.querySelectorAll('#categories tfoot [data-bytes]')].map(s => Number(s.dataset.bytes))")
    assert foot == [sum(row[column]["bytes"] for row in rows) for column in (1, 4)]
    assert rows == sorted(rows, key=lambda row: -row[1]["bytes"])
    at.tell("document.querySelector('#categories th button').click()")
    assert [row[0]["text"] for row in table(at, "categories")] == sorted(row[0]["text"] for row in rows)
    assert at.tell("document.querySelector('#categories th').getAttribute('aria-sort')") == "ascending"
    assert at.tell("document.activeElement.innerText") == "Category"


def test_modules_are_those_of_lines_and_open_by_keys(at, report):
    at.tell("document.getElementById('modules-open').click()")
    for moment in ("peak", "end"):
        at.tell(f"(() => {{ const s = document.getElementById('modules-at'); s.value = {int(moment == 'end')}; s.dispatchEvent(new Event('change')); }})()")
        at.tell("document.getElementById('modules-open').click()")
        rows = table(at, "modules")
        depths = at.tell("[...document.querySelectorAll('#modules tbody tr')].map(r => Number(r.dataset.depth))")
        names = at.tell("[...document.querySelectorAll('#modules thead th')].map(h => h.innerText.trim())")
        whole, own = names.index("With its parts"), names.index("Its own")
        wanted = {}
        for row in harness.analyze_json("lines", "--by", "module", "--at", moment, report):
            name = "(cuBLAS workspace)" if row.get("workspace") else row["module"] or "(no module)"
            wanted[name] = wanted.get(name, 0) + row["bytes"]
        found = {}
        for row in rows:
            found[row[0]["text"]] = found.get(row[0]["text"], 0) + row[own]["bytes"]
        assert {name: size for name, size in found.items() if size} == {name: size for name, size in wanted.items() if size}
        level = sum(wanted.values())
        assert level == sum(row[whole]["bytes"] for row, depth in zip(rows, depths) if depth == 0)
        assert at.tell("Number(document.querySelector('#modules tfoot [data-bytes]').dataset.bytes)") == level
        for place, (row, depth) in enumerate(zip(rows, depths)):
            parts = 0
            for below, deep in zip(rows[place + 1:], depths[place + 1:]):
                if deep <= depth:
                    break
                parts += below[whole]["bytes"] if deep == depth + 1 else 0
            assert row[whole]["bytes"] == row[own]["bytes"] + parts
    at.tell("(() => { const s = document.getElementById('modules-at'); s.value = 0; s.dispatchEvent(new Event('change')); })()")
    at.tell("document.getElementById('modules-close').click()")
    closed = len(table(at, "modules"))
    at.tell("document.querySelector('#modules .fold').focus()")
    at.key("ArrowRight", 39)
    opened = len(table(at, "modules"))
    assert opened > closed and at.tell("document.activeElement.getAttribute('aria-expanded')") == "true"
    at.key("ArrowLeft", 37)
    assert len(table(at, "modules")) == closed and at.tell("document.activeElement.className") == "fold"
    at.key("Enter", 13, "\r")
    assert len(table(at, "modules")) == opened


def test_hints_are_those_of_the_command(at, report):
    wanted = [of for of in harness.analyze_json("report", "--hints", report) if of["kind"] != "out_of_memory"]
    rows = table(at, "hints")
    assert [row[0]["bytes"] or 0 for row in rows] == [of["bytes"] for of in wanted]
    lines = at.tell("[...document.querySelectorAll('#hints tbody tr')].map(r => [...r.querySelectorAll('.evidence [data-bytes]')].map(s => Number(s.dataset.bytes)))")
    for of, row, found in zip(wanted, rows, lines):
        assert of["what"] in row[-1]["text"] and f"→ {of['advice']}" in row[-1]["text"]
        holder = [of["holder"]] if of.get("holder") else []
        place = lambda line: (line["file"], line["line"], line.get("node"))  # noqa: E731
        others = [line for line in of["lines"] if not holder or place(line) != place(holder[0])]
        assert found == [line["bytes"] for line in [*holder, *others]]


def test_leaks_are_those_of_the_command(at, report):
    leaks = harness.analyze_json("leaks", report)
    rows = table(at, "leaks") if at.tell("document.getElementById('leaks-all').open") else None
    growing = [row for row in leaks["rows"] if row["class"] == "growing"]
    assert (rows is not None) == bool(growing)
    least, most = (at.tell(f"gpumem.bytes({sum(row[f'bytes_per_step_{end}'] for row in growing)})") for end in ("least", "most"))
    number, unit = least.split(" ")
    slope = most if least == most else f"{number} to {most}" if most.endswith(f" {unit}") else f"{least} to {most}"
    verdict = text(at, "#verdict")
    if growing:
        lines = "1 line grows" if len(growing) == 1 else f"{len(growing)} lines grow"
        assert f"{lines} by {slope} per step." in verdict
    else:
        assert re.search(r"No line grows|growth is reported from", verdict)
    at.tell("document.getElementById('leaks-all').open = true")
    found = [(row[1]["bytes"], row[2]["bytes"], count(row[4]), row[5]["bytes"]) for row in table(at, "leaks")]
    assert found == [
        (of["bytes"], of["bytes_per_step"] if of["class"] == "growing" else None, of["blocks"], of["survived_bytes"]) for of in leaks["rows"]
    ]
    at.tell("[...document.querySelectorAll('#leaks th button')].find(b => b.innerText === 'Bytes').click()")
    assert [row[1]["bytes"] for row in table(at, "leaks")] == sorted((of["bytes"] for of in leaks["rows"]), reverse=True)


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_it_fits_has_landmarks_and_is_accessible(at, width, tmp_path):
    axe = harness.ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
    at.resize(width, 1200)
    at.wait(f"document.documentElement.scrollWidth <= {width}")
    heads = at.tell("[...document.querySelectorAll('main > section:not([hidden]) > h2')].map(h => h.innerText)")
    assert {"What the memory is for", "Modules", "What stays from step to step", "Hints"} <= {*heads}
    assert at.tell("[...document.querySelectorAll('nav a')].map(a => a.innerText)") == heads
    assert at.tell("[...document.querySelectorAll('nav a')].every(a => document.querySelector(a.getAttribute('href')))")
    for scheme in ("light", "dark"):
        at.picture(tmp_path / f"{scheme}.png", scheme)
        if not axe.is_file():
            continue
        at.tell(axe.read_text() + "; undefined")
        at.tell("document.getElementById('leaks-all').open = true; axe.run().then(found => { globalThis.found = found.violations; }); undefined")
        at.wait("globalThis.found !== undefined")
        found = at.tell("globalThis.found.map(v => [v.id, v.impact, v.nodes.slice(0, 3).map(n => n.html.slice(0, 160) + ' ' + n.failureSummary)])")
        at.tell("globalThis.found = undefined")
        assert [of for of in found if of[1] in ("serious", "critical")] == [], json.dumps(found, indent=1)
    assert at.errors() == []


SHOWN_CONTROLS = (
    "[...document.querySelectorAll('button, select, input, summary, nav')].filter(e => e.checkVisibility() && e.getClientRects().length)"
    ".filter(e => !e.closest('th') && !e.classList.contains('fold')).map(e => e.id || e.outerHTML.slice(0, 80))"
)


def test_paper_is_light_and_has_no_controls(at):
    """Printed where the system is dark: nothing is cut, details are open, and the picture has light colours."""
    back = "getComputedStyle(document.documentElement).getPropertyValue('--back').trim()"
    corner = "[...document.querySelector('#chart canvas').getContext('2d').getImageData(2, 2, 1, 1).data]"
    at.call("Emulation.setEmulatedMedia", media="screen", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    # The drawing for the new width is complete before the check.
    at.resize(718, 1000)
    at.wait("document.getElementById('plot').viewBox.baseVal.width < 718")
    at.wait(f"{corner}[0] < 90")
    assert at.tell(SHOWN_CONTROLS) != []
    at.call("Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    at.wait(f"{corner}[0] > 200")
    assert at.tell(back) == "#ffffff" and at.tell(SHOWN_CONTROLS) == []
    assert at.tell("document.getElementById('leaks-all').open")
    assert at.tell("document.documentElement.scrollWidth") <= 718
    cut = at.tell("[...document.querySelectorAll('main table, main canvas, main svg, .plot')].filter(e => e.getBoundingClientRect().right > 718.5).map(e => e.parentElement.id)")
    assert cut == []
    printed = at.call("Page.printToPDF", printBackground=True)["data"]
    assert len(printed) > 20_000
    at.call("Emulation.setEmulatedMedia", media="screen", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    at.wait(f"{corner}[0] < 90")
    assert at.tell(SHOWN_CONTROLS) != [] and at.errors() == []


def test_keys_of_the_tree_are_in_the_help(at):
    at.key("?", 191)
    assert "In the tree of modules" in text(at, "#help")


def test_a_part_of_a_run_is_whole_in_itself(window, report, tmp_path):
    """Its blocks are the level at each of its events, its peak is its own, and outside of it is nothing."""
    steps = harness.analyze_json("report", "--all", report)["steps"]
    ends = [harness.analyze_json("timeline", "--from", f"step={step}", report)["from_seq"] for step in (steps - 2, steps - 1)]
    out = tmp_path / "part.html"
    harness.analyze("html", "--from", str(ends[0]), "--to", f"step={steps - 1}", "-o", out, report)
    data = page_data(out)
    assert data["events"] == ends and "from event" in data["part"] and f"step {steps - 1}" in data["part"]
    timeline = harness.analyze_json("timeline", "--from", str(ends[0]), "--to", str(ends[1]), report)
    [device] = timeline["devices"]
    [tensors] = [of for of in data["devices"][0]["history"] if of["level"] == "tensor"]
    assert tensors["whole"] and tensors["all"] == tensors["blocks"]
    assert tensors["points"][0][0] == ends[0]
    found = page_blocks.blocks(tensors)
    assert all(block.made <= ends[1] and (block.ended is None or block.ended > ends[0]) for block in found)
    level = page_blocks.level(found)
    for seq, _, size in tensors["points"]:
        assert level(seq) == size
    show(window, out)
    assert window.tell("[gpumem.data.from, gpumem.data.to]") == [timeline["from_ns"], timeline["to_ns"]]
    assert "the peak" in text(window, "#shown") and "This page covers a part of the run" in text(window, "#part")
    for seq in (ends[0], (ends[0] + ends[1]) // 2, ends[1]):
        window.tell(f"gpumem.chooseEvent({seq})")
        rows = harness.analyze_json("lines", "--at", str(seq), report)
        assert window.tell("gpumem.level().bytes") == sum(row["bytes"] for row in rows)
    assert window.tell("gpumem.data.devices[0].moments.find(m => m.kind === 'peak').levels[0].bytes") == device["peak"]["tensor_bytes"]
    # Left and right of it the events are those of blocks that reach into it: no level is known there.
    window.tell(f"gpumem.chooseEvent({ends[0] - 1})")
    assert window.tell("gpumem.state.chosen") is None and "nearest moment" in text(window, "#off")
    window.tell(f"gpumem.chooseEvent({ends[0]}); document.getElementById('plot').focus()")
    window.key("ArrowLeft", 37)
    assert window.tell("gpumem.state.chosen.seq") == ends[0]
    assert "of the whole run" in text(window, "#categories caption") and "of the whole run" in text(window, "#ledger caption")
    rows = {row[0]["text"]: row[1]["bytes"] for row in table(window, "categories")}
    assert sum(rows.values()) == sum(of["bytes"] for of in harness.analyze_json("lines", "--by", "category", report))
    assert window.errors() == []


def test_moments_that_a_part_has_not_are_refused(report, tmp_path):
    for options, said in (
        (["--from", "step=2", "--to", "step=1"], "swap them"),
        (["--from", "99999999"], "event 99999999 does not exist"),
        (["--from", "step=2", "--at", "step=1"], "outside of --from and --to"),
    ):
        done = harness.analyze("html", *options, "-o", tmp_path / "x.html", report, check=False)
        assert done.returncode == 1 and said in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


def test_who_kept_the_tensors_stands_below_the_cause(window, tmp_path):
    """The objects of `oom` with their bytes, and the rest of the live ones."""
    out = tmp_path / "report.html"
    harness.analyze("html", "-o", out, harness.CAPTURES / "graphs.bin")
    show(window, out)
    holders = harness.analyze_json("oom", harness.CAPTURES / "graphs.bin")["cause"]["holders"]
    rows = table(window, "kept")
    shown = holders["rows"][:5]
    assert len(holders["rows"]) > len(shown)
    assert [row[0]["bytes"] for row in rows] == [of["bytes"] for of in shown] + [holders["live_bytes"] - sum(of["bytes"] for of in shown)]
    for row, of in zip(rows, shown):
        assert of["text"] in row[3]["text"] and row[4]["text"] == of["place"] and count(row[2]) == of["blocks"]
