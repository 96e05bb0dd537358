"""The flamegraph of the peak of a real training.

What breaks these tests: an order taken from a hash map, a stack left out, widths in anything but
bytes, a time stamp in the picture, or XML that a browser would not take."""

import io
import shutil

import harness
import pytest
import svg

TORCHES = ("torch215", "torch112")


@pytest.mark.parametrize("environment", TORCHES)
def test_the_widths_sum_to_the_peak(environment, trained, analyze, analyze_json, tmp_path):
    run = trained(environment)
    picture = tmp_path / "peak.svg"
    analyze("flamegraph", "-o", picture, run.report)
    peak = harness.device_of(analyze_json("summary", run.report))["tensor"]["peak_bytes"]
    boxes = svg.boxes(picture)
    assert boxes[0].width == peak == svg.bytes_in_title(boxes[0].title)
    own = svg.own_widths(boxes)
    assert min(own) >= 0
    assert sum(own) == peak
    assert any("train.py" in box.title for box in boxes)


@pytest.mark.parametrize("environment", TORCHES)
def test_the_same_capture_gives_the_same_bytes(environment, trained, analyze, tmp_path):
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


def test_it_can_be_drawn(trained, analyze, tmp_path):
    """Rendered by resvg to a PNG that is no blank page."""
    resvg_py = pytest.importorskip("resvg_py", reason="resvg_py is not installed")
    image = pytest.importorskip("PIL.Image", reason="pillow is not installed")
    picture = tmp_path / "peak.svg"
    analyze("flamegraph", "-o", picture, trained("torch215").report)
    drawn = resvg_py.svg_to_bytes(svg_string=picture.read_text())
    with image.open(io.BytesIO(bytes(drawn))) as opened:
        assert opened.width >= 600 and opened.height >= 200
        colours = opened.convert("RGB").getcolors(maxcolors=1 << 24)
    coloured = sum(count for count, colour in colours if max(colour) - min(colour) > 100)
    everything = sum(count for count, _ in colours)
    assert coloured > everything / 20, "boxes in strong colours cover a part of the picture"


def test_a_killed_run_has_a_picture_too(python_env, simulate, tmp_path, analyze):
    """A killed run's report is read like any other."""
    simulate(
        [python_env("torch215"), harness.WORKLOADS / "killed_in_backward.py"], preload=True, check=False
    )
    analyze(tmp_path / "report.bin")
    assert svg.boxes(tmp_path / "report.svg")
