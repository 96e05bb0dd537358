"""A real PyTorch training, byte for byte: the capture against PyTorch's own figures and against the simulator's
books.

What breaks these tests: recording a tensor event with the requested instead of the rounded size, losing one event,
recording a free after the address is allocated again, counting a nested driver call twice (cudaMalloc and the
cuMemAlloc under it), or missing a library's own driver calls (cuBLAS, cuDNN)."""

import json
import re

import captures
import harness
import pytest

TORCHES = ("torch215", "torch112")


def line_of(text):
    """The number of the line of train.py that holds `text`."""
    source = (harness.WORKLOADS / "train.py").read_text().splitlines()
    (number,) = [number for number, line in enumerate(source, 1) if text in line]
    return number


@pytest.mark.parametrize("environment", TORCHES)
def test_tensor_figures_equal_pytorchs(environment, trained, analyze_json):
    run = trained(environment)
    summary = analyze_json("report", "--all", run.report)
    own = run.figures["devices"][0]
    tensor = harness.device_of(summary)["tensor"]
    assert own["max_allocated"] > own["allocated"] > 0
    assert tensor["live_bytes"] == own["allocated"]
    assert tensor["peak_bytes"] == own["max_allocated"]
    assert tensor["allocations"] == own["allocations"]
    assert tensor["frees"] == own["frees"]


@pytest.mark.parametrize("environment", TORCHES)
def test_reserved_figures_equal_pytorchs(environment, trained, analyze_json):
    run = trained(environment)
    own = run.figures["devices"][0]
    reserved = harness.device_of(analyze_json("report", "--all", run.report))["reserved"]
    assert reserved["peak_bytes"] == own["max_reserved"]
    assert reserved["live_bytes"] == own["reserved"]


@pytest.mark.parametrize("environment", TORCHES)
def test_driver_figures_equal_the_simulators_books(environment, trained, analyze_json):
    run = trained(environment)
    device = harness.device_of(analyze_json("report", "--all", run.report))
    books = run.figures["books"]["devices"][0]
    for level, book in (("driver", books["driver"]), ("host", books["host"])):
        figures = device[level]
        assert figures["live_bytes"] == book["current"], level
        assert figures["peak_bytes"] == book["peak"], level
        assert figures["allocations"] == book["allocations"], level
        assert figures["frees"] == book["frees"], level
    assert books["driver"]["peak"] > 0
    assert device["uuid"] == books["uuid"]
    assert device["total_bytes"] == books["total_bytes"]


@pytest.mark.parametrize("environment", TORCHES)
def test_the_account_is_exact(environment, trained, analyze, analyze_json):
    """`exact` holds only if the shared counters equal the replay and nothing was lost."""
    run = trained(environment)
    summary = analyze_json("report", "--all", run.report)
    assert summary["exact"] is True
    assert summary["lost_events"] == 0
    assert summary["events"] >= sum(
        run.figures["devices"][0][kind] for kind in ("allocations", "frees")
    )
    assert "train.py" in json.dumps(summary["process"])
    analyze("check", run.report)  # exits 0 only for a whole capture


@pytest.mark.parametrize("environment", TORCHES)
@pytest.mark.parametrize("level", ("tensor", "driver"))
@pytest.mark.parametrize("moment", ("peak", "end"))
def test_lines_sum_to_the_levels_figure(environment, level, moment, trained, analyze_json):
    run = trained(environment)
    rows = analyze_json("lines", "--level", level, "--at", moment, run.report)
    figures = harness.device_of(analyze_json("report", "--all", run.report))[level]
    figure = figures["peak_bytes" if moment == "peak" else "live_bytes"]
    assert sum(row["bytes"] for row in rows) == figure
    sizes = [row["bytes"] for row in rows]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("environment", TORCHES)
def test_every_byte_of_the_peak_has_a_line(environment, trained, analyze_json):
    """Forward, backward and optimizer alike: no row without a file at the tensor level."""
    run = trained(environment)
    rows = analyze_json("lines", run.report)
    nameless = sum(row["bytes"] for row in rows if row["file"] is None)
    assert nameless == 0
    spike = [row for row in rows if row["line"] == line_of("256).contiguous()")]
    batch, width = 16, 128
    assert [(row["bytes"], row["blocks"]) for row in spike] == [(batch * batch * width * 256 * 4, 1)]
    assert spike[0]["function"].endswith("similarity")


@pytest.mark.parametrize("environment", TORCHES)
def test_the_leak_is_found_at_its_line(environment, trained, analyze_json):
    """Four steps kept one image plane of 16 × 64 × 64 floats each."""
    run = trained(environment)
    rows = analyze_json("lines", "--at", "end", run.report)
    leak = [row for row in rows if row["line"] == line_of("# the leak")]
    assert [(row["bytes"], row["blocks"]) for row in leak] == [(4 * 16 * 64 * 64 * 4, 4)]


@pytest.mark.parametrize("environment", TORCHES)
def test_report_for_people(environment, analyze):
    """What `gpumem-analyze report.bin` prints: the account, the ledger, the lines, the changes and where
    the picture is."""
    report = captures.trained(environment).report
    printed = analyze(report).stdout
    assert re.search(r"^report\.bin .*train\.py", printed, re.M), printed
    assert re.search(r"^account +exact", printed, re.M), printed
    assert re.search(r"^GPU 0 at its peak, .* of 16\.0 GiB$", printed, re.M), printed
    spike = line_of("256).contiguous()")
    assert re.search(rf"^  .*train\.py:{spike} .* 32\.0 MiB +\d+ % +1$", printed, re.M), printed
    assert re.search(rf"^  .*train\.py:{spike} +similarity +\+3\d\.\d MiB", printed, re.M), printed
    assert "report.svg" in printed and report.with_suffix(".svg").is_file()


def test_ending_by_return_keeps_the_peak(forks, tmp_path, analyze_json):
    """An ordinary exit frees what lived; the peak stays, and nothing is reported as lost."""
    script = [harness.WORKLOADS / "tell.py", "--end", "return", harness.WORKLOADS / "train.py", "--steps", "4", "--batch", "16"]
    done = forks("torch215").run(script, cwd=tmp_path)
    own = harness.figures(done)["devices"][0]
    summary = analyze_json("report", "--all", tmp_path / "report.bin")
    tensor = harness.device_of(summary)["tensor"]
    assert summary["exact"] is True
    assert tensor["peak_bytes"] == own["max_allocated"]
    assert tensor["live_bytes"] <= own["allocated"]
    told = [line for line in done.stderr.splitlines() if "gpumem" in line]
    assert len(told) == 1 and "report.bin" in told[0] and "gpumem-analyze" in told[0], told
