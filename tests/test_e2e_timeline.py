"""The timeline of real trainings (tests/data/captures), compared with the sums of a second reader of the records.

What breaks these tests: a spike that a bucket loses, an event that is counted in the wrong bucket, a last figure that
is not the last, a device's moment chosen by another rule than the ledger's, a part of the run that begins without
earlier blocks, a fold that contains an event, a span with another's end, overlapping texts.
"""

import json
import re
from xml.etree import ElementTree

import browser
import pytest
import spec_reader
from captures import capture, trained

ALLOC, FREE, CANCEL = 1, 2, 3
AUX, KIND = 3, 7
STEP, SAMPLE, RANGE_BEGIN, RANGE_END, PHASE_BEGIN, PHASE_END = 13, 14, 22, 23, 24, 25
LEVELS = {"tensor": 0, "driver": 1, "host": 2}


def series(report, level):
    """(time, event, live bytes) of a level of GPU 0, after each of its events."""
    live, out = 0, []
    for word, seq, *fields in spec_reader.read(report).order.records:
        if word != "event":
            continue
        time, _, size, _, _, _, _, kind, of, device, *_ = fields
        if (of, device) == (LEVELS[level], 0) and kind in (ALLOC, FREE, CANCEL):
            live += -size if kind == FREE else size
            out.append((time, seq, live))
    return out


@pytest.mark.parametrize("level", ("tensor", "driver"))
@pytest.mark.parametrize("environment", ("torch215", "torch112"))
def test_each_bucket_has_the_most_and_the_last_of_its_time(environment, level, analyze_json):
    report = trained(environment).report
    device = analyze_json("timeline", "--level", level, report)["devices"][0]
    events = series(report, level)
    assert len(events) > 100 if level == "tensor" else len(events) > 3
    buckets = device["buckets"]
    assert 1 < len(buckets) <= 2048
    # A bucket ends with the event that its last figure is of.
    begin, before, checked = 0, 0, 0
    for bucket in buckets:
        assert bucket["from_ns"] <= bucket["most"]["time_ns"]
        own = [e for e in events if begin < e[1] <= bucket["last"]["seq"]]
        begin = bucket["last"]["seq"]
        if not own:
            assert bucket["most"]["bytes"] == bucket["last"]["bytes"] == [before]
            continue
        checked += len(own)
        # What was there at the bucket's first event counts, too: that can be another level's.
        most = max(live for _, _, live in own)
        assert bucket["most"]["bytes"][0] in (most, max(most, before)), bucket
        before = own[-1][2]
        assert bucket["last"]["bytes"] == [before]
        for time, _, _ in own:
            assert time <= bucket["to_ns"]
    assert checked == len(events)
    peak = max(live for _, _, live in events)
    assert device["peak"]["bytes"] == [peak]
    assert device["peak"]["seq"] == next(seq for _, seq, live in events if live == peak)


def test_the_bands_are_what_the_card_gave(analyze_json):
    """All bands together are the physical level, as the simulator's NVML saw it, at every reading."""
    report = trained("torch215").report
    timeline = analyze_json("timeline", report)
    device = timeline["devices"][0]
    for bucket in device["buckets"]:
        last = bucket["last"]
        assert sum(last["bytes"]) >= last["tensor_bytes"]
        if last["physical_bytes"] >= last["driver_bytes"]:
            assert sum(last["bytes"]) == last["physical_bytes"]
    readings = [
        bucket for bucket in device["buckets"]
        if bucket["nvml_process_bytes"] == bucket["last"]["physical_bytes"]
    ]
    assert len(readings) >= 3
    ledger = analyze_json("ledger", report)[0]
    assert device["peak"]["seq"] == ledger["seq"]


def test_steps_and_phases_are_there(analyze_json):
    report = trained("torch215").report
    timeline = analyze_json("timeline", report)
    summary = analyze_json("report", "--all", report)
    course = timeline["course"]
    assert sum(bucket["steps"] for bucket in course) == summary["steps"] > 0
    assert [b["step"] for b in course if b["step"]][-1] == summary["steps"]
    for bucket in course:
        phases = ("backward_ns", "optimizer_ns", "zero_grad_ns", "other_ns")
        spent = sum(bucket[phase] for phase in phases)
        assert spent <= bucket["to_ns"] - bucket["from_ns"]
    assert sum(bucket["backward_ns"] for bucket in course) > 0
    assert sum(bucket["optimizer_ns"] for bucket in course) > 0


@pytest.fixture(scope="module")
def laned():
    """laned() is the capture of lanes.py, laned("pinned") that with much pinned memory."""
    return lambda memory="short": capture(f"lanes/{memory}")


def records(report, *kinds):
    """Time, event, aux, kind and address of the events of these kinds, or of all kinds without an argument."""
    out = []
    for word, seq, *fields in spec_reader.read(report).order.records:
        if word == "event" and (not kinds or fields[KIND] in kinds):
            out.append((fields[0], seq, fields))
    return out


def points(timeline):
    """What the device held after events: by band, where the band has anything."""
    device = timeline["devices"][0]
    names = [(band["kind"], band["name"]) for band in device["bands"]]
    found = {}
    for bucket in device["buckets"]:
        for point in (bucket["most"], bucket["last"]):
            bands = {name: size for name, size in zip(names, point["bytes"]) if size}
            found[point["seq"]] = (bands, *(point[key] for key in FIGURES))
    return found


FIGURES = ("time_ns", "tensor_bytes", "driver_bytes", "host_bytes", "physical_bytes")


@pytest.mark.parametrize("share", ((0.2, 0.7), (0.0, 0.5), (0.6, 1.0), (0.45, 0.46)))
def test_a_stretch_has_the_figures_of_the_whole_run(share, analyze_json):
    report = trained("torch215").report
    whole = analyze_json("timeline", report)
    buckets = whole["devices"][0]["buckets"]
    first, last = (min(int(part * len(buckets)), len(buckets) - 1) for part in share)
    begin, end = buckets[first]["last"]["seq"], buckets[last]["last"]["seq"]
    part = analyze_json("timeline", "--from", begin, "--to", end, report)
    assert (part["from_seq"], part["to_seq"]) == (begin, end)
    assert part["bucket_ns"] <= whole["bucket_ns"]
    device = part["devices"][0]
    of_whole, of_part = points(whole), points(part)
    both = of_whole.keys() & of_part.keys()
    assert len(both) > (last - first) // 2 and end in both
    for seq in both:
        assert of_part[seq] == of_whole[seq], seq
    # The figures at the beginning of the part are in its first bucket, and the peak is within the part.
    rank = lambda point: (point["tensor_bytes"], point["driver_bytes"], point["physical_bytes"])  # noqa: E731
    inside = [buckets[first]["last"], *(bucket["most"] for bucket in buckets[first + 1 : last + 1])]
    most = max(inside, key=rank)
    assert rank(device["peak"]) == rank(most)
    assert device["peak"]["seq"] == most["seq"]
    for level in ("tensor", "driver"):
        events = series(report, level)
        figures = [live for _, seq, live in events if begin < seq <= end]
        before = [live for _, seq, live in events if seq <= begin]
        only = analyze_json("timeline", "--level", level, "--from", begin, "--to", end, report)["devices"][0]
        assert only["peak"]["bytes"] == [max([*before[-1:], *figures, 0])]
        assert only["buckets"][-1]["last"]["bytes"] == [[*before[-1:], *figures][-1]]


def test_a_stretch_between_steps(laned, analyze, analyze_json):
    report = laned()
    ends = [seq for _, seq, _ in records(report, STEP)]
    part = analyze_json("timeline", "--from", "step=2", "--to", "step=3", report)
    assert (part["from_seq"], part["to_seq"]) == (ends[1], ends[2])
    lanes = {lane["name"]: [label for _, _, label in lane["spans"]] for lane in part["lanes"]}
    assert lanes["marks"] == ["after 1"], "the mark comes after the step's end"
    assert lanes["steps"] == ["step 3"]
    assert lanes["ranges"] == ["batch 1", "batch 2", "forward pass"], "a range ends after its step"
    assert lanes["phases"].count("backward") == 1
    assert part["failures"] == [] and part["failure_count"] == 0
    failed = analyze_json("timeline", "--from", "step=4", report)
    assert failed["failure_count"] == len(failed["failures"]) == 5
    text = analyze("timeline", "--format", "text", "--from", "step=2", "--to", "oom", report).stdout
    first = text.splitlines()[0]
    assert first.startswith("from the end of step 2 (") and " to the failure (" in first
    assert f"event {ends[1]:,})" in first


@pytest.mark.parametrize(
    "arguments, said",
    (
        (("--from", "step=3", "--to", "step=2"), "is earlier: swap them"),
        (("--from", "step=3", "--to", "step=3"), "are the same event"),
        (("--from", "step=99"), "step 99 did not end, 4 steps did: name one of those"),
        (("--to", "999999999"), "event 999999999 does not exist"),
        (("--from", "99m"), "name an earlier time"),
        (("--from", "end"), "--from is the last event"),
    ),
)
def test_a_stretch_that_is_not_there_is_refused_in_a_line(arguments, said, laned, analyze):
    done = analyze("timeline", *arguments, "--format", "text", laned(), check=False)
    assert done.returncode == 1 and done.stdout == ""
    assert said in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


def test_a_stretch_needs_moments(laned, analyze):
    done = analyze("timeline", "--from", "nowhen", laned(), check=False)
    assert done.returncode == 2 and "expected peak, end, oom" in done.stderr


def test_idle_stretches_are_folded(laned, analyze, analyze_json):
    """In a fold there is no event but readings that change nothing; the second of sleep is in one."""
    report = laned()
    timeline = analyze_json("timeline", report)
    folds = timeline["folds"]
    assert folds and folds == sorted(folds)
    assert any(end - begin >= 1_000_000_000 for begin, end in folds)
    reading = {}
    for time, seq, fields in records(report):
        if fields[KIND] == SAMPLE:
            before, reading[0] = reading.get(0), fields[2]
            if before == fields[2]:
                continue
        assert not any(begin < time < end for begin, end in folds), (time, seq)
    rest = timeline["to_ns"] - timeline["from_ns"] - sum(end - begin for begin, end in folds)
    assert rest < 1_000_000_000
    # The rest is in full detail: not in buckets of a 2,048th of the whole.
    assert timeline["bucket_ns"] <= max(rest // 1000, 1024)
    text = analyze("timeline", "--format", "text", report).stdout
    assert "≈" in text and "folded at ≈, where no event occurred: 1." in text


def test_lanes_are_what_the_program_said(laned, analyze_json):
    report = laned()
    timeline = analyze_json("timeline", report)
    lanes = {lane["kind"]: lane for lane in timeline["lanes"]}
    assert list(lanes) == ["phases", "steps", "ranges", "scopes", "marks"]
    assert all(lane["left_out"] == 0 for lane in lanes.values())
    spans = {kind: [tuple(span) for span in lane["spans"]] for kind, lane in lanes.items()}
    steps = [time for time, _, _ in records(report, STEP)]
    assert [(end, label) for _, end, label in spans["steps"]] == [(time, f"step {n}") for n, time in enumerate(steps, 1)]
    assert [begin for begin, _, _ in spans["steps"]][1:] == steps[:-1]
    for name in ("backward", "optimizer"):
        assert [label for _, _, label in spans["phases"]].count(name) == 4
    number = {"backward": 1, "optimizer": 2, "zero_grad": 3}
    for kind, at in ((PHASE_BEGIN, 0), (PHASE_END, 1)):
        read = sorted((time, fields[AUX]) for time, _, fields in records(report, kind))
        assert read == sorted((span[at], number[span[2]]) for span in spans["phases"])
    labels = [label for _, _, label in spans["ranges"]]
    expected = [label for step in range(4) for label in (f"batch {step}", "forward pass")]
    assert labels == expected
    for outer, inner in zip(spans["ranges"][::2], spans["ranges"][1::2]):
        assert outer[0] < inner[0] < inner[1] < outer[1], (outer, inner)
    begun = [time for time, _, _ in records(report, RANGE_BEGIN)]
    ended = [time for time, _, _ in records(report, RANGE_END)]
    assert [span[0] for span in spans["ranges"]] == begun
    assert sorted(span[1] for span in spans["ranges"]) == ended
    scopes = analyze_json("lines", "--by", "scope", report)
    told = sorted((of["begin_ns"], of["end_ns"], of["name"]) for of in scopes["scopes"])
    assert sorted(spans["scopes"]) == told and len(told) == 8
    marks = [(of["ns"], of["ns"], of["name"]) for of in scopes["marks"]]
    assert spans["marks"] == marks and len(marks) == 4


def svg_of(report, analyze, *arguments):
    """The picture as XML, which it must be."""
    return ElementTree.fromstring(analyze("timeline", "-o", "-", *arguments, report).stdout)


def classed(svg, name):
    return [of for of in svg.iter() if name in of.get("class", "").split()]


def texts(svg):
    return [text.text for text in svg.iter("{http://www.w3.org/2000/svg}text")]


def test_failures_are_marks_and_little_pinned_memory_is_a_line(laned, analyze):
    svg = svg_of(laned(), analyze)
    marks = classed(svg, "failed")
    named = [line for mark in marks for line in mark[0].text.splitlines() if line.startswith("out of memory at ")]
    assert len(named) == 5 and all("32.0 TiB (35,184,372,088,832 bytes) requested" in line for line in named)
    at = [float(re.match(r"M([\d.]+)", mark.get("d"))[1]) for mark in marks]
    assert all(after - before >= 9 for before, after in zip(at, at[1:])), "failures beside each other are one mark"
    assert "pinned host memory: at most 1.00 KiB" in texts(svg) and not classed(svg, "host")
    pinned = svg_of(laned("pinned"), analyze)
    assert len(classed(pinned, "host")) == 1 and "pinned host memory, at most 8.00 MiB" in texts(pinned)
    assert {"phases", "steps", "ranges", "scopes", "marks"} <= set(texts(svg))
    titles = {of[0].text.splitlines()[0] for name in ("range", "scope", "mark", "step") for of in classed(svg, name)}
    assert {"batch 1", "forward pass", "whole step", "optimizer's", "after 3", "step 4"} <= titles
    assert classed(svg, "fold")


def test_the_picture_has_the_pages_colours(analyze, tmp_path):
    report = trained("torch215").report
    svg = analyze("timeline", "-o", "-", report).stdout
    page = tmp_path / "page.html"
    analyze("html", "-o", page, report)
    variable = re.compile(r"--([\w-]+): *(#[0-9a-f]{6})")
    roots = re.findall(r":root(?::not\(\.printing\))? *\{([^}]*)\}", page.read_text())
    light, dark = (dict(variable.findall(root)) for root in roots[:2])
    style, _, dim = svg[svg.index("<style>") : svg.index("@media (max")].partition("@media (prefers-color-scheme:dark)")
    names = ["parameter", "gradient", "optimizer-state", "activation", "input", "workspace", "temporary", "other", "tensors",
             "cached", "beyond", "unknown", "host", "back"]
    for name in names:
        assert f".{name}{{fill:{light[name]}}}" in style, name
        assert f".{name}{{fill:{dark[name]}}}" in dim, name


@pytest.fixture
def page(laned, analyze, tmp_path):
    picture = tmp_path / "timeline.svg"
    analyze("timeline", "-o", picture, laned("pinned"))
    return picture


BOXES = """JSON.stringify([...document.querySelectorAll("text")].filter((text) => getComputedStyle(text).display !== "none")
  .map((text) => [text.textContent, text.getBoundingClientRect().toJSON(), getComputedStyle(text).fill,
    parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a]))"""


@pytest.mark.parametrize("width", (1280, 390))
def test_texts_are_readable_at_any_width(width, page, tmp_path):
    binary = browser.find()
    if binary is None:
        pytest.skip("no Chromium on this machine: scripts/lib/environment browser")
    window = browser.Browser(binary)
    try:
        window.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        window.open(page)
        fills = {}
        for scheme in ("light", "dark"):
            window.picture(tmp_path / f"{scheme}.png", scheme)
            boxes = json.loads(window.tell(BOXES))
            assert len(boxes) > 25
            for text, box, _, size in boxes:
                assert size >= (9 if width < 640 else 12), (text, size)
                assert box["left"] >= -1 and box["right"] <= min(width, 960) + 1, (text, box)
            for at, (one, box, _, _) in enumerate(boxes):
                for other, against, _, _ in boxes[at + 1 :]:
                    across = min(box["right"], against["right"]) - max(box["left"], against["left"])
                    down = min(box["bottom"], against["bottom"]) - max(box["top"], against["top"])
                    assert across <= 1 or down <= box["height"] / 3, (one, other)
            fills[scheme] = {fill for _, _, fill, _ in boxes}
        assert not fills["light"] & fills["dark"]
        assert window.errors() == [] and len(window.requests()) == 1
    finally:
        window.close()
