"""Comparisons of two runs and of two points in time, and the source with bytes in its margin, on a real training
(tests/data/captures).

The comments of tests/workloads/known_lines.py state what each line must own. The training keeps one plane of each
step's images, so two runs of it differ by that line and by this many bytes.

What breaks these tests: rows of different lines side by side, a figure of the wrong capture or moment, a freed block
counted as growth, or a source line beside the wrong number."""

import re

import harness
import pytest
from captures import capture

TRAIN = harness.WORKLOADS / "train.py"
LEAK = "HISTORY.append"


def line_of(script, text):
    found = [number for number, line in enumerate(script.read_text().splitlines(), 1) if text in line]
    assert len(found) == 1, found
    return found[0]


@pytest.fixture(scope="module")
def runs():
    """Captures of the same training with 4 steps and with 9."""
    return [capture(f"trained/steps{steps}") for steps in (4, 9)]


def test_runs_differ_by_the_line_that_keeps_a_plane_in_each_step(runs, analyze_json):
    """A plane of `2 x 16 x 16` floats is 2,048 bytes; the last step's is kept after the peak."""
    diff = analyze_json("diff", *runs)
    by_line = {(row["file"].rsplit("/", 1)[-1], row["line"]): row for row in diff["rows"] if row["file"]}
    leak = by_line["train.py", line_of(TRAIN, LEAK)]
    assert leak["change_bytes"] == 5 * 2048
    assert leak["after_blocks"] - leak["before_blocks"] == 5
    assert diff["change_bytes"] == 5 * 2048, "nothing else differs"
    for side, report in zip(("before", "after"), runs):
        assert sum(row[f"{side}_bytes"] for row in diff["rows"]) == diff[f"{side}_bytes"]
        peak = harness.device_of(analyze_json("report", "--all", report))["tensor"]["peak_bytes"]
        assert diff[f"{side}_bytes"] == peak


def test_two_moments_of_one_run_differ_by_what_was_kept_between(runs, analyze_json):
    diff = analyze_json("diff", "--at", "step=3", "--to", "step=8", runs[1], runs[1])
    changed = [row for row in diff["rows"] if row["change_bytes"]]
    assert [(row["line"], row["change_bytes"]) for row in changed] == [(line_of(TRAIN, LEAK), 5 * 2048)]


def test_the_text_has_the_figures_of_the_json(runs, analyze):
    text = analyze("diff", *runs).stdout
    assert re.search(rf"train\.py:{line_of(TRAIN, LEAK)}\b.*\+10\.0 KiB", text), text
    assert re.search(r"^Together .*\+10\.0 KiB", text, re.M), text


def test_a_device_that_only_one_has_is_all_change(runs, analyze_json):
    diff = analyze_json("diff", "--file", "no such file", *runs)
    assert diff == {**diff, "rows": [], "before_bytes": 0, "after_bytes": 0, "change_bytes": 0}


def test_the_margin_says_what_each_line_owns(forks, tmp_path, analyze, analyze_json):
    """Live bytes are those of `lines`; allocated and not freed bytes are those live at the end. The sources are on this
    machine."""
    options = ("--steps", "9", "--batch", "2", "--size", "16")
    forks("torch215").run([harness.WORKLOADS / "tell.py", "--end", "hard", TRAIN, *options], cwd=tmp_path)
    report = tmp_path / "report.bin"
    peak, end = (
        {(row["file"], row["line"]): 0 for row in analyze_json("lines", "--at", at, report)} for at in ("peak", "end")
    )
    for at, sums in (("peak", peak), ("end", end)):
        for row in analyze_json("lines", "--at", at, report):
            sums[row["file"], row["line"]] += row["bytes"]
    found = analyze_json("lines", "--annotate", report)
    lines = {(file["file"], line["line"]): line for file in found["files"] for line in file["lines"]}
    assert {at: line["live_bytes"] for at, line in lines.items() if line["live_bytes"]} == peak
    for at, line in lines.items():
        assert line["growth_bytes"] == end.get(at, 0), at
        assert line["allocated_bytes"] == line["freed_bytes"] + line["growth_bytes"], at
    counted = sum(line["allocations"] for line in lines.values())
    assert counted == harness.device_of(analyze_json("report", "--all", report))["tensor"]["allocations"]
    leak = lines[str(TRAIN), line_of(TRAIN, LEAK)]
    assert (leak["allocations"], leak["allocated_bytes"]) == (9, 9 * 2048)

    text = analyze("lines", "--annotate", "--at", "step=9", report).stdout
    # The optimizer's step, which ends a step, comes before the line.
    row = next(row for row in text.splitlines() if LEAK in row)
    assert row.split()[:8] == ["16.0", "KiB", "16.0", "KiB", "·", "16.0", "KiB", "8"], row
    shown = re.findall(r"^.{53} *(\d+)  (.*)$", text, re.M)
    source = TRAIN.read_text().splitlines()
    assert len(shown) > 30
    for number, told in shown:
        assert source[int(number) - 1][:100].rstrip() == told.rstrip()


def test_holders_at_the_failures_are_compared_by_name(analyze, analyze_json):
    """Two programs that ran out of memory: what each object has is what `oom` says of it, without numbers in its name."""
    both = [capture("tensors"), capture("graphs")]
    [diff] = analyze_json("diff", *both)["holders"]
    assert (diff["before_at"], diff["after_at"]) == ("failure", "failure")
    rows = {(row["kind"], row["text"], row["place"]): row for row in diff["rows"]}
    for side, report in zip(("before", "after"), both):
        kept = analyze_json("oom", report)["cause"]["holders"]["rows"]
        for figure in ("bytes", "blocks"):
            assert sum(row[f"{side}_{figure}"] for row in diff["rows"]) == sum(row[figure] for row in kept)
    features = rows["object", "features[…]", "global of __main__"]
    assert features["after_bytes"] == 0 and features["change_bytes"] == -features["before_bytes"] < -(400 << 20)
    history = rows["graph", "history[…]", "global of __main__"]
    assert diff["rows"][0] == history and history["before_blocks"] == 0
    text = analyze("diff", *both).stdout
    assert re.search(r"^  graph of history\[…\] .*\+\d+ MiB", text, re.M) and "Who keeps the tensors of GPU 0, at the failure" in text
    assert re.search(r"^  features\[…\] .* -426 MiB +213 → 0$", text, re.M), text
    alike = analyze("diff", both[0], both[0]).stdout
    assert "Who keeps" not in alike, alike
