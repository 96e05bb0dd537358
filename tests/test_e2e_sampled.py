"""Sampled stacks on a real PyTorch (tests/data/captures, but for what the recorder estimates itself): figures that are not by stack equal those of a run that takes all stacks, lines
are within their stated error, and every view marks them as estimates.

What breaks these tests: omitting an event because it has no stack, scaling a total, a sampler whose probability is
not that of the format, and a view that shows estimates without a mark."""

import gzip
import json
import math

import harness
import pytest
import spec_reader
from captures import capture, printed

MEAN = 512 << 10
SAID = "sampled: one tensor stack was recorded per 512 KiB allocated, on average"
SCRIPT = harness.WORKLOADS / "sampled_lines.py"
# Standard errors that a line may differ by: less than one run in a million.
ERRORS = 5


@pytest.fixture(scope="module")
def runs():
    """Captures of the same program: all stacks taken, and sampled ones; with both stacks and with Python's alone. With each
    the live bytes and the peak that the program printed."""
    return {
        name: (capture(f"sampled/{name}"), *map(int, printed(f"sampled/{name}").split()[:2]))
        for name in ("all", "both", "python")
    }


def functions(rows):
    """Rows of lines, summed by function."""
    found = {}
    for row in rows:
        name = (row["function"] or "").rsplit(".", 1)[-1]
        found.setdefault(name, []).append(row)
    return found


@pytest.mark.parametrize("mode", ("both", "python"))
def test_totals_peaks_and_counters_are_those_of_a_run_with_all_stacks(runs, analyze_json, mode):
    (all_stacks, live, peak), (sampled, *figures) = runs["all"], runs[mode]
    assert figures == [live, peak]
    summaries = [harness.device_of(analyze_json("report", "--all", report)) for report in (all_stacks, sampled)]
    for level in ("tensor", "driver", "host", "reserved"):
        one, other = (
            {key: value for key, value in summary[level].items() if key.endswith("bytes") or key in ("allocations", "frees")}
            for summary in summaries
        )
        assert one == other, level
    assert (summaries[1]["tensor"]["live_bytes"], summaries[1]["tensor"]["peak_bytes"]) == (live, peak)
    assert analyze_json("report", "--all", sampled)["exact"] is True
    sizes = [analyze_json("lines", "--by", "size", "--all", "--at", "end", report) for report in (all_stacks, sampled)]
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("mode", ("both", "python"))
@pytest.mark.parametrize("moment", ("peak", "end"))
def test_lines_are_within_their_error(runs, analyze_json, moment, mode):
    (all_stacks, live, peak), (sampled, *_) = runs["all"], runs[mode]
    exact, estimates = (
        functions(analyze_json("lines", "--at", moment, report)) for report in (all_stacks, sampled)
    )
    rows = [row for rows in estimates.values() for row in rows]
    assert sum(row["bytes"] for row in rows) == {"peak": peak, "end": live}[moment]
    blocks = sum(row["blocks"] for rows in exact.values() for row in rows)
    assert sum(row["blocks"] for row in rows) == blocks
    for function, relative in (("large", 0.001), ("medium", 0.15), ("small", 0.15)):
        (truth,), (estimate,) = exact[function], estimates[function]
        error = estimate["error_bytes"]
        assert abs(estimate["bytes"] - truth["bytes"]) <= ERRORS * error + 1, (function, estimate)
        assert error <= relative * truth["bytes"], (function, estimate)
        assert "error_bytes" not in truth
    # Of few blocks that are as large as this the probability is e^-64 that one has no stack.
    assert abs(estimates["large"][0]["bytes"] - 128 * (1 << 20)) <= 1 << 20


NOT_SAMPLED, TENSOR, ALLOC = 4294967294, 0, 1


def test_the_capture_is_what_the_format_says(runs):
    """By a reader that shares nothing with the analyzer: which allocations carry stacks, and what all are estimated to have."""
    records = spec_reader.read(runs["both"][0]).order.records
    facts = [record[3:] for record in records if record[0] == "definition" and record[2] == 136]
    assert [str(MEAN)] == [value for fact in facts for value in fact[-1:] if "stack_sample" in fact]
    sizes, unseen = [], []
    for word, _, *fields in records:
        if word != "event":
            continue
        _, _, size, _, python, native, _, kind, level, *_ = fields
        assert (python == NOT_SAMPLED) == (native == NOT_SAMPLED)
        if (kind, level) == (ALLOC, TENSOR):
            sizes.append(size)
            unseen.append(python == NOT_SAMPLED)
        else:
            assert python != NOT_SAMPLED
    chance = {size: -math.expm1(-size / MEAN) for size in set(sizes)}
    for size, count in ((16 << 10, 4096), (256 << 10, 256), (32 << 20, 4)):
        of = [missing for its, missing in zip(sizes, unseen) if its == size]
        assert len(of) >= count
        spread = math.sqrt(len(of) * chance[size] * (1 - chance[size]))
        assert abs(len(of) - sum(of) - len(of) * chance[size]) <= ERRORS * spread + 1e-9, size
    estimate = sum(size / chance[size] for size, missing in zip(sizes, unseen) if not missing)
    variance = sum(size**2 * (1 - chance[size]) / chance[size] for size in sizes)
    assert abs(estimate - sum(sizes)) <= ERRORS * math.sqrt(variance)


def test_events_in_tables_say_that_they_carry_no_stacks(runs, analyze):
    head, *rows = analyze("export", "csv", "--level", "tensor", "-o", "-", runs["both"][0]).stdout.splitlines()
    size, kind, function = (head.split(",").index(name) for name in ("bytes", "kind", "function"))
    small = [row.split(",") for row in rows]
    small = [row[function] for row in small if (row[size], row[kind]) == (str(16 << 10), "alloc")]
    assert {"small", "(not sampled)"} <= set(small)
    assert 0.95 < small.count("(not sampled)") / len(small) < 0.99


TEXT = (
    ["report", "--all"], ["lines"], ["lines", "--annotate"], ["tree"], ["leaks"], ["lines", "--of", "temporary"], ["report", "--hints"], ["changes"], ["ledger", "--pool"],
    ["ledger"], ["ledger", "--by", "owner"], ["lines", "--by", "scope"], ["lines", "--by", "size"], ["oom"], [],
)


@pytest.mark.parametrize("command", TEXT, ids=" ".join)
def test_text_says_at_its_head_that_stacks_are_sampled(runs, analyze, command):
    first = analyze(*command, runs["both"][0]).stdout.split("\n\n")[0]
    assert SAID in first
    assert SAID not in analyze(*command, runs["all"][0]).stdout


@pytest.mark.parametrize("command", TEXT, ids=" ".join)
def test_json_has_a_field_that_says_so(runs, analyze, command):
    for name, mean in (("both", MEAN), ("all", None)):
        said = json.loads(analyze(*command, "--format", "json", runs[name][0]).stdout)
        assert said["capture"]["stack_sample_bytes"] == mean


def test_a_difference_says_so_of_each_side(runs, analyze):
    text = analyze("diff", runs["all"][0], runs["both"][0]).stdout
    before, after = text.split("after ", 1)
    assert SAID not in before and SAID in after


def test_pictures_pages_and_exports_say_so(runs, analyze, tmp_path):
    report = runs["both"][0]
    for of in ("live", "allocated", "temporary"):
        svg = tmp_path / f"{of}.svg"
        analyze("flamegraph", "--of", of, "-o", svg, report)
        assert SAID in svg.read_text(), of
    analyze("html", "-o", tmp_path / "page.html", report)
    assert SAID in (tmp_path / "page.html").read_text()
    speedscope = json.loads(analyze("export", "speedscope", "-o", "-", report).stdout)
    assert SAID in speedscope["name"]
    analyze("export", "pprof", "-o", tmp_path / "profile.pb.gz", report)
    assert SAID.encode() in gzip.decompress((tmp_path / "profile.pb.gz").read_bytes())
    for form in ("folded", "csv", "firefox"):
        assert SAID in analyze("export", form, "-o", "-", report).stderr, form


def test_whatever_has_bytes_by_stack_sums_to_the_exact_figure(runs, analyze, analyze_json):
    report, live, peak = runs["both"]
    assert analyze_json("tree", report)["bytes"] == peak
    folded = analyze("export", "folded", "-o", "-", report).stdout.splitlines()
    assert sum(int(line.rsplit(" ", 1)[1]) for line in folded) == peak
    leaks = analyze_json("leaks", "--at", "end", report)
    assert leaks["bytes"] == sum(row["bytes"] for row in leaks["rows"]) == live
    temporary, exact = (analyze_json("lines", "--of", "temporary", runs[name][0]) for name in ("both", "all"))
    found = {row["function"]: row for row in temporary["rows"]}["temporary"]
    truth = {row["function"]: row for row in exact["rows"]}["temporary"]
    # 512 blocks of a quarter of the mean: their standard error is 9 %.
    assert abs(found["bytes"] - truth["bytes"]) <= ERRORS * 0.09 * truth["bytes"]


def test_a_leak_is_found(runs, analyze_json):
    growing = [row for row in analyze_json("leaks", runs["both"][0])["rows"] if row["class"] == "growing"]
    assert [row["function"] for row in growing] == ["main"]
    # Blocks of four times the mean: of a hundred two have no stack.
    assert abs(growing[0]["bytes_per_step"] - (2 << 20)) <= 1 << 20


def test_a_bounded_capture_estimates_as_well(forks, analyze_json, tmp_path):
    env = {"GPUMEM_STACK_SAMPLE": "512KiB", "GPUMEM_BOUNDED": "16MiB"}
    done = forks("torch215").run([SCRIPT], cwd=tmp_path, env=env)
    live, *_ = map(int, done.stdout.split())
    rows = functions(analyze_json("lines", "--at", "end", tmp_path / "report.bin"))
    assert sum(row["bytes"] for of in rows.values() for row in of) == live
    for function in ("small", "medium"):
        (row,) = rows[function]
        assert abs(row["bytes"] - (64 << 20)) <= ERRORS * row["error_bytes"], row


OUT_OF_MEMORY = """\
import torch

kept = [torch.empty(16 << 10, dtype=torch.uint8, device="cuda") for _ in range(4096)]
try:
    torch.empty(4 << 30, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError:
    print("out of memory")
"""


def test_a_post_mortem_estimates_and_says_so(forks, analyze, tmp_path):
    (tmp_path / "fails.py").write_text(OUT_OF_MEMORY)
    env = {"GPUMEM_STACK_SAMPLE": "512KiB"}
    done = forks("torch215").run([tmp_path / "fails.py"], cwd=tmp_path, env=env, memory="1GiB")
    assert done.stdout == "out of memory\n"
    assert "  sampled  one stack per 512 KiB allocated: bytes of tensors by line are estimates\n" in done.stderr
    # All of it is one line's: what has no stacks is its too.
    (row,) = [line for line in done.stderr.splitlines() if "fails.py:3" in line]
    assert row.split()[:2] == ["64.0", "MiB"] and "4,096" in row, row
    text = analyze("oom", tmp_path / "report.bin").stdout
    assert SAID in text and "fails.py:3" in text
