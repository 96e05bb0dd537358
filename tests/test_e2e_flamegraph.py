"""The flamegraph of the peak of real trainings: checked-in captures (tests/data/captures).

What breaks these tests: an order taken from a hash map, a stack left out, widths in another unit than bytes, a time
stamp in the picture, or XML that a browser does not accept; dispatch that is not folded, bytes that folding changes,
a label cut at its beginning, a colour without meaning."""

import io
import re
import shutil

import browser
import harness
import pytest
import svg
from captures import capture, trained

TORCHES = ("torch215", "torch112")


@pytest.mark.parametrize("environment", TORCHES)
def test_the_widths_sum_to_the_peak(environment, analyze, analyze_json, tmp_path):
    run = trained(environment)
    picture = tmp_path / "peak.svg"
    analyze("flamegraph", "-o", picture, run.report)
    peak = harness.device_of(analyze_json("report", "--all", run.report))["tensor"]["peak_bytes"]
    boxes = svg.boxes(picture)
    assert boxes[0].width == peak == svg.bytes_in_title(boxes[0].title)
    own = svg.own_widths(boxes)
    assert min(own) >= 0
    assert sum(own) == peak
    assert any("train.py" in box.title for box in boxes)


@pytest.mark.parametrize("environment", TORCHES)
def test_the_same_capture_gives_the_same_bytes(environment, analyze, tmp_path):
    """Also from another folder, under another name, and by the default command."""
    run = trained(environment)
    pictures = [tmp_path / name for name in ("one.svg", "two.svg")]
    for picture in pictures:
        analyze("flamegraph", "-o", picture, run.report)
    copy = tmp_path / "elsewhere" / "report.bin"
    copy.parent.mkdir()
    shutil.copy(run.report, copy)
    analyze(copy)
    first = pictures[0].read_bytes()
    assert pictures[1].read_bytes() == first
    assert copy.with_suffix(".svg").read_bytes() == first


def test_it_can_be_drawn(analyze, tmp_path):
    """Rendered by resvg to a PNG that is no blank page."""
    resvg_py = pytest.importorskip("resvg_py", reason="resvg_py is not installed")
    image = pytest.importorskip("PIL.Image", reason="pillow is not installed")
    picture = tmp_path / "peak.svg"
    analyze("flamegraph", "-o", picture, trained("torch215").report)
    drawn = resvg_py.svg_to_bytes(svg_path=str(picture), monospace_family="DejaVu Sans Mono")
    with image.open(io.BytesIO(bytes(drawn))) as opened:
        assert opened.width >= 600 and opened.height >= 200
        colours = opened.convert("RGB").getcolors(maxcolors=1 << 24)
    # The background is pale, the boxes are not.
    boxes = sum(count for count, colour in colours if max(colour) - min(colour) > 50)
    assert boxes > sum(count for count, _ in colours) / 5


def test_a_killed_run_has_a_picture_too(tmp_path, analyze):
    """A killed run's report is read like any other."""
    killed = harness.ROOT / "tests" / "fixtures" / "captures" / "v1" / "torch-kill.bin"
    shutil.copy(killed, tmp_path / "report.bin")
    analyze(tmp_path / "report.bin")
    assert svg.boxes(tmp_path / "report.svg")


@pytest.fixture(scope="module")
def larger():
    """The capture of the training of `trained`, with larger batches."""
    return capture("trained/larger")


@pytest.fixture(scope="module")
def here(forks, tmp_path_factory):
    """A capture of that training whose sources are on this machine: views show a line's text from its file."""
    folder = tmp_path_factory.mktemp("here")
    script = [harness.WORKLOADS / "tell.py", "--end", "hard", harness.WORKLOADS / "train.py", "--steps", "4", "--batch", "16"]
    forks("torch215").run(script, cwd=folder)
    return folder / "report.bin"


def draw(analyze, to, *arguments):
    analyze("flamegraph", "-o", to, *arguments)
    return svg.boxes(to)


@pytest.mark.parametrize("level", ("tensor", "driver"))
@pytest.mark.parametrize("environment", TORCHES)
def test_folding_changes_no_bytes(environment, level, analyze, analyze_json, tmp_path):
    report = trained(environment).report
    figure = harness.device_of(analyze_json("report", "--all", report))[level]["peak_bytes"]
    for options in ([], ["--native"]):
        boxes = draw(analyze, tmp_path / "x.svg", "--level", level, *options, report)
        assert boxes[0].width == svg.bytes_in_title(boxes[0].title) == figure
        own = svg.own_widths(boxes)
        assert min(own) >= 0 and sum(own) == figure
        lines = analyze("flamegraph", "--format", "folded", "--level", level, *options, report).stdout.splitlines()
        assert sum(int(line.rsplit(" ", 1)[1]) for line in lines) == figure


@pytest.mark.parametrize("environment", TORCHES)
def test_dispatch_is_folded_unless_all_frames_are_asked_for(environment, analyze):
    report = trained(environment).report
    folded = analyze("flamegraph", "--format", "folded", report).stdout
    native = analyze("flamegraph", "--format", "folded", "--native", report).stdout
    for dispatch in ("_call_impl", "c10::", "at::_ops::", "torch::autograd::", "run_path"):
        assert dispatch not in folded and dispatch in native, dispatch
    for asked in ("aten::conv2d", "aten::linear", "backward: ConvolutionBackward0"):
        assert asked in folded, asked
    deepest = [max(line.count(";") for line in of.splitlines()) for of in (folded, native)]
    assert deepest[0] < 16 < 32 < deepest[1]


def test_inverted_stacks_begin_with_the_newest_frame(analyze, tmp_path):
    """The same bytes, each stack the other way round, so that a function is one box below all its callers."""
    report = trained("torch215").report
    upright, inverted = (
        dict(line.rsplit(" ", 1) for line in analyze("flamegraph", "--format", "folded", *of, report).stdout.splitlines()) for of in ([], ["--inverted"])
    )
    assert {";".join(reversed(stack.split(";"))): size for stack, size in upright.items()} == inverted
    boxes = draw(analyze, tmp_path / "x.svg", "--inverted", report)
    assert ", inverted<" in (tmp_path / "x.svg").read_text()
    newest = {}
    for stack, size in inverted.items():
        newest.setdefault(stack.split(";")[0], []).append(int(size))
    name, sizes = max(newest.items(), key=lambda of: len(of[1]))
    assert len(sizes) > 3
    assert sum(sizes) in [box.width for box in boxes if box.title.startswith(f"{name} (")]


def test_the_library_that_allocates_is_named(analyze):
    folded = analyze("flamegraph", "--format", "folded", "--level", "driver", trained("torch215").report).stdout
    handles = [line.split(";") for line in folded.splitlines() if "cublasCreate" in line]
    assert handles and all(re.match(r"cublasCreate_v2\b", frames[-1]) and frames[-2].startswith("aten::") for frames in handles)


def test_an_owner_has_the_text_of_its_line(here, analyze, tmp_path):
    boxes = draw(analyze, tmp_path / "x.svg", "--by", "module", here)
    assert any(re.search(r"/train\.py:\d+: return pairs\.pow\(2\)\.sum\(\) \(", box.title) for box in boxes), [box.title for box in boxes]


def test_a_window_without_a_width_is_no_error(chromium, analyze, tmp_path):
    draw(analyze, tmp_path / "x.svg", trained("torch215").report)
    (tmp_path / "x.html").write_text('<iframe src="x.svg" width="0" height="100" frameborder="0"></iframe>')
    chromium.open(tmp_path / "x.html")
    chromium.wait("document.querySelector('iframe').clientWidth === 0")
    assert chromium.errors() == []


@pytest.mark.parametrize("options", ([], ["--native"], ["--format", "icicle"], ["--color-by", "category"]))
def test_labels_have_the_line_and_are_cut_at_their_end(options, here, analyze, tmp_path):
    boxes = draw(analyze, tmp_path / "x.svg", *options, here)
    titles = [box.title for box in boxes]
    assert any(re.match(r"Model\.forward \(train\.py:\d+\): x = self\.stem\(images\) \(", title) for title in titles)
    assert any(box.label.startswith("main (train.py:") and ": train(options.steps" in box.label for box in boxes)
    for box in boxes:
        assert not box.label.startswith("..")
        assert box.title.startswith(box.label.removesuffix("..")), box
        # inferno's program has the label from the title by this.
        assert re.search(r"\([^(]*\)$", box.title)[0].count(" bytes") == 1
    assert "\ue000" not in (tmp_path / "x.svg").read_text()


def test_colours_are_those_of_kinds(analyze, tmp_path):
    picture = tmp_path / "x.svg"
    boxes = draw(analyze, picture, trained("torch215").report)
    colours = {}
    for box in boxes:
        colours.setdefault(box.kind, set()).add(box.colour)
    assert set(colours) == {"all", "your-python", "installed-python", "native", "backward", "optimizer"}
    assert all(len(of) == 1 for of in colours.values()) and len(set.union(*colours.values())) == len(colours)
    for start, kind in {"main (": "your-python", "Conv2d.": "installed-python", "aten::": "native", "backward: ": "backward", "Adam.": "optimizer"}.items():
        assert {box.kind for box in boxes if box.title.startswith(start)} == {kind}, start
    legend = re.search(r'<g id="legend">.*?</g></g>', picture.read_text())[0]
    assert re.findall(r">([^<>]+)</text>", legend) == ["your Python", "installed Python", "native", "backward", "optimizer"]


def test_colours_are_those_of_categories(analyze, analyze_json, tmp_path):
    report = trained("torch215").report
    boxes = draw(analyze, tmp_path / "x.svg", "--color-by", "category", report)
    spike = [box for box in boxes if box.title.startswith("similarity (")]
    assert {box.kind for box in spike} == {"of-temporary"}
    assert {box.kind for box in boxes if box.title.startswith("Stem.forward")} >= {"of-activation"}
    assert {box.kind for box in boxes if box.title.startswith("Adam.step")} == {"of-optimizer-state"}
    done = harness.run([harness.ANALYZER, "flamegraph", "--color-by", "category", "--diff", report, report], check=False)
    assert done.returncode == 2 and "cannot be used with" in done.stderr


def test_a_frame_has_the_colour_of_all_that_changed_in_it(larger, analyze, tmp_path):
    before, after = trained("torch215").report, larger
    boxes = draw(analyze, tmp_path / "x.svg", "--diff", before, after)
    assert boxes[0].kind == "grown8"
    source = (harness.WORKLOADS / "train.py").read_text().splitlines()
    line = next(number for number, text in enumerate(source, 1) if "x = self.conv2(x)" in text)
    grew = [box for box in boxes if box.title.startswith(f"Stem.forward (train.py:{line})")]
    assert grew and all(re.fullmatch("grown[1-8]", box.kind) for box in grew)
    said = re.search(r"before \S+ \S+ = ([\d,]+) bytes, change \+\S+ \S+ = \+([\d,]+) bytes", grew[0].title)
    was, more = (int(figure.replace(",", "")) for figure in said.groups())
    assert was + more == grew[0].width and more == 8 * 128 * 64 * 64 * 4, "what 8 images more take"
    white = [box for box in boxes if box.kind == "same"]
    assert white and all("no change" in box.title for box in white)
    boxes = draw(analyze, tmp_path / "y.svg", "--diff", after, before)
    assert boxes[0].kind == "shrunk8"


def test_what_is_gone_is_summed(analyze, tmp_path):
    report = trained("torch215").report
    picture = tmp_path / "x.svg"
    draw(analyze, picture, "--from", "peak", "--at", "end", report)
    lines = analyze("flamegraph", "--format", "folded", "--from", "peak", "--at", "end", report).stdout.splitlines()
    figures = [tuple(map(int, line.rsplit(" ", 2)[1:])) for line in lines]
    gone = [before for before, after in figures if not after]
    said = re.search(r"no longer live, and not drawn: (\S+) MiB of (\d+) stacks", picture.read_text())
    assert int(said[2]) == len(gone) > 10 and abs(float(said[1]) - sum(gone) / 2**20) < 1


@pytest.fixture(scope="module")
def chromium():
    binary = browser.find()
    if not binary:
        pytest.skip("no Chromium: scripts/lib/environment browser")
    opened = browser.Browser(binary, 1280, 800)
    yield opened
    opened.close()


def fitted(chromium):
    """Waits until the labels fit the window: the picture's program sets a timer for this when it is loaded, and timers of the
    same delay expire in order."""
    chromium.call("Runtime.evaluate", expression="new Promise(done => setTimeout(done, 0))", awaitPromise=True)


LUMINANCE = """
    const part = (value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    const luminance = (colour) => {
        const [red, green, blue] = colour.match(/[0-9.]+/g).map(Number);
        return 0.2126 * part(red) + 0.7152 * part(green) + 0.0722 * part(blue);
    };
"""


@pytest.mark.parametrize("options", ([], ["--color-by", "category"], ["--diff"]))
@pytest.mark.parametrize("scheme", ("light", "dark"))
def test_a_browser_shows_it(scheme, options, chromium, larger, analyze, tmp_path):
    picture = tmp_path / "x.svg"
    draw(analyze, picture, *options, *([trained("torch215").report] if "--diff" in options else []), larger)
    chromium.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    chromium.open(picture)
    fitted(chromium)
    told = chromium.tell(f"""(() => {{
        {LUMINANCE}
        const contrasts = [...document.querySelectorAll("#frames > g")].map((group) => {{
            const [back, ink] = ["rect", "text"].map((of) => luminance(getComputedStyle(group.querySelector(of)).fill));
            return (Math.max(back, ink) + 0.05) / (Math.min(back, ink) + 0.05);
        }});
        const labels = [...document.querySelectorAll("#frames > g > text")].map((text) => text.textContent);
        const right = (of) => of.getBoundingClientRect().right;
        const overflowing = [...document.querySelectorAll("#frames > g")].filter(
            (group) => right(group.querySelector("text")) > right(group.querySelector("rect")) + 3);
        return {{
            least: Math.min(...contrasts), labels, overflowing: overflowing.map((group) => group.textContent),
            legend: right(document.getElementById("legend")),
            background: luminance(getComputedStyle(document.documentElement).backgroundColor),
        }};
    }})()""")
    assert told["least"] >= 4.5
    assert any(label.startswith("main (train.py:") for label in told["labels"])
    assert not any(label.startswith("..") for label in told["labels"])
    assert not told["overflowing"]
    assert told["legend"] < 1280
    assert (told["background"] > 0.9) == (scheme == "light") and (told["background"] < 0.05) == (scheme == "dark")
    assert chromium.errors() == []


def test_a_click_enlarges_and_a_search_marks(chromium, here, analyze, tmp_path):
    picture = tmp_path / "x.svg"
    draw(analyze, picture, here)
    chromium.open(picture)
    fitted(chromium)
    marked = "[...document.querySelectorAll('#frames rect')].filter((rect) => getComputedStyle(rect).fill === getComputedStyle(found).fill)"
    chromium.tell("search('similarity')")
    found = "const found = [...document.querySelectorAll('#frames > g')].find((group) => group.textContent.startsWith('similarity (')).querySelector('rect');"
    many = chromium.tell(f"(() => {{ {found} return {marked}.length; }})()")
    named = chromium.tell("[...document.querySelectorAll('#frames title')].filter((title) => title.textContent.includes('similarity')).length")
    assert many == named > 2
    width = chromium.tell(f"(() => {{ {found} zoom(found.parentNode); return found.getAttribute('width'); }})()")
    assert width.startswith("100.0")
