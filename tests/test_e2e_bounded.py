"""GPUMEM_BOUNDED on a real PyTorch: a capture of limited size gives the same answers as the one that has every
event. Of one run's records all is compared, with times and readings; of two runs only what does not depend on the
time of a reading.

The default lane compares a run's own records in both forms, and the capture of a killed process; the slow lane all
views of two runs.

What breaks these tests: a state that lacks a field, a page of the log that is overwritten before a state holds its
records, stacks that are evicted while they hold blocks, a peak whose blocks are not kept, or a file that grows."""

import functools
import json
import re
from collections import Counter

import harness
import pytest
from lanes import lanes

SIZE = 16 << 20
RING = 4 << 20
# Their events fill the log of 4 MiB once and more.
PAIRS = 700_000


@pytest.fixture(scope="module")
def recorded(python_env, tmp_path_factory):
    """recorded(True) is the capture of the training, bounded or not; recorded(True, "kill") that of one that was
    killed at its end."""

    @functools.lru_cache(maxsize=None)
    def run_of(bounded, how="exit"):
        folder = tmp_path_factory.mktemp("bounded" if bounded else "full")
        report = folder / "report.bin"
        done = harness.simulate(
            [python_env("torch215"), harness.WORKLOADS / "bounded_training.py", PAIRS, how],
            preload=True,
            env={
                **harness.SIMULATED_CARD["torch215"],
                "GPUMEM_OUTPUT": str(report),
                "GPUMEM_SAMPLE_MS": "0",
                **({"GPUMEM_BOUNDED": "16MiB"} if bounded else {}),
            },
            cwd=folder,
            check=how != "kill",
        )
        assert "tensors kept" in done.stdout, done.stderr
        return report

    return run_of


@pytest.fixture(scope="module")
def again(recorded, tmp_path_factory):
    """The records of the full capture once more, in a bounded one."""
    report = tmp_path_factory.mktemp("again") / "report.bin"
    harness.run([harness.EXAMPLES / "record_again", recorded(False), report, str(SIZE >> 20)])
    return report


def kept_from(analyze, report):
    """The first event that a bounded capture still has as itself."""
    said = re.search(r"bounded to 16\.0 MiB: events are kept from ([\d,]+) on", analyze("check", report).stdout)
    return int(said[1].replace(",", ""))


def comparable(ledger):
    """A device's ledger without what differs from run to run: times, numbers of records, addresses, the time of a
    reading, and which of a library's lines has most of its code. A reading charges the code loaded by launches since
    the last reading to the function that was looked up last (docs/ledgers.md)."""
    keep = {
        key: value
        for key, value in ledger.items()
        if key not in ("seq", "time_ns", "reading", "jumps", "nvml_process_bytes", "nvml_used_bytes", "contexts_and_code_ns")
    }
    place = ("file", "line", "function", "node")
    keep["rows"] = [
        {key: value for key, value in row.items() if row["kind"] != "module" or key not in place}
        for row in ledger["rows"]
    ]
    # Segments of one size are in the order of their addresses.
    segments = (keep.get("pool") or {}).get("segments", [])
    for segment in segments:
        segment.pop("address", None)
    segments.sort(key=lambda segment: json.dumps(segment, sort_keys=True))
    return keep


def test_the_same_records_read_the_same(recorded, again, analyze, analyze_json):
    full = recorded(False)
    lines = [("lines", "--level", level, "--at", at) for level in ("tensor", "driver") for at in ("peak", "end")]
    ledgers = [("ledger", "--by", by, "--at", at) for by in ("kind", "owner", "line") for at in ("peak", "end")]
    for view in (*lines, *ledgers):
        rows = [analyze_json(*view, report) for report in (full, again)]
        assert rows[0] == rows[1] and rows[0], view
    for view in (("tree",), ("ledger", "--segments"), ("flamegraph", "--format", "folded"), ("flamegraph", "--format", "folded", "--at", "end")):
        texts = [analyze(*view, report).stdout for report in (full, again)]
        assert texts[0] == texts[1] and texts[0], view
    devices = [analyze_json("report", "--all", report)["devices"] for report in (full, again)]
    assert devices[0] == devices[1]
    # The peak and its readings are long gone from the log.
    assert all(device["peak"]["seq"] < kept_from(analyze, again) for device in devices[1])


@pytest.mark.slow
def test_lines_ledgers_and_flamegraphs_are_those_of_every_event(recorded, analyze, analyze_json):
    full, bounded = recorded(False), recorded(True)
    summaries = [analyze_json("report", "--all", report) for report in (full, bounded)]
    assert all(summary["exact"] for summary in summaries)
    # How often NVML is read is a matter of time.
    assert all(summary["events"] > 2 * PAIRS for summary in summaries)
    for one, two in zip(summaries[0]["devices"], summaries[1]["devices"], strict=True):
        for level in ("tensor", "driver", "host", "reserved", "physical"):
            assert one[level] == two[level], level
        # The peak is long gone from the log.
        assert two["peak"]["seq"] < kept_from(analyze, bounded)
    for view in (
        ("lines", "--level", "tensor"),
        ("lines", "--level", "driver"),
        ("lines", "--level", "tensor", "--at", "end"),
        ("lines", "--level", "driver", "--at", "end"),
    ):
        rows = [analyze_json(*view, report) for report in (full, bounded)]
        assert rows[0] == rows[1] and rows[0], view
    for at in ("peak", "end"):
        ledgers = [analyze_json("ledger", "--at", at, report) for report in (full, bounded)]
        assert list(map(comparable, ledgers[0])) == list(map(comparable, ledgers[1])), at
        graphs = [analyze("flamegraph", "--format", "folded", "--at", at, report).stdout for report in (full, bounded)]
        assert graphs[0] == graphs[1] and graphs[0], at


def test_rows_of_a_dataset_are_those_of_every_event(recorded, again, analyze, analyze_json):
    tables = [
        harness.unwrapped(analyze("fleet", "rows", "--format", "json", report).stdout) for report in (recorded(False), again)
    ]

    def held(rows):
        lines = {line["line_key"]: line["label"] for line in rows["lines"]}
        sums = Counter()
        for row in rows["held"]:
            # Modules without names are numbered as they are seen.
            place = tuple(row[name] for name in ("device", "moment", "level", "category"))
            sums[(lines[row["line_key"]], *place)] += row["bytes"]
        return sums

    assert held(tables[0]) == held(tables[1]) and tables[0]["held"]
    steps = analyze_json("report", "--all", again)["steps"]
    assert tables[1]["ranks"][0]["steps"] == steps == len(tables[0]["steps"])
    # The first steps are not known any more, and are no rows; the others are numbered as in the whole capture.
    greatest = [{row["first_step"]: row["bytes"] for row in rows["steps"]} for rows in tables]
    assert greatest[1].items() <= greatest[0].items() and 1 not in greatest[1]


@pytest.mark.parametrize("how", lanes(("kill", "exit")))
def test_a_bounded_capture_has_one_size_and_survives_sigkill(how, recorded, analyze, analyze_json):
    report = recorded(True, how)
    # What ended has no copy of its ring any more.
    assert SIZE - RING - 3 * 4096 < report.stat().st_size <= SIZE
    assert analyze("check", report).returncode == 0
    every, found = (analyze_json("report", "--all", each) for each in (recorded(False), report))
    assert found["exact"] and (how == "exit" or found["process"]["ending"] == "killed")
    for one, two in zip(every["devices"], found["devices"], strict=True):
        assert one["tensor"] == two["tensor"]
    rows = [analyze_json("lines", each) for each in (recorded(False), report)]
    assert rows[0] == rows[1]


def test_what_is_no_longer_kept_is_refused_in_one_line(again, analyze):
    first = kept_from(analyze, again)
    for view in (("lines", "--at", "2000"), ("lines", "--step", "1"), ("ledger", "--at", "2000")):
        done = analyze(*view, again, check=False)
        assert done.returncode == 1
        assert done.stderr.count("\n") == 1 and f"from event {first} " in done.stderr, done.stderr
    done = analyze("changes", "--format", "json", again)
    assert f"changes before event {first} are missing" in done.stderr
    assert all(change["seq"] >= first for change in harness.unwrapped(done.stdout))
