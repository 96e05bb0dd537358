"""Exports of real trainings (tests/data/captures), each read by its format's own reader, or by one that checks the format's rules; totals
equal PyTorch's own figures, the simulator's books and the records as tests/spec_reader reads them.

What breaks these tests: a stack left out, a frame read as a count, a number of values other than one per type, ids
of 0, slices that do not nest, a free charged to the freeing line, a lost row."""

import csv
import os
import pty
import sqlite3
import subprocess

import duckdb
import harness
import polars
import pytest
import readers
import spec_reader
from captures import PROGRAMS, trained
from prometheus_client.parser import text_string_to_metric_families

SCHEMA = harness.ROOT / "tests" / "data" / "speedscope-1.25.0-schema.json"
TORCHES = ("torch215", "torch112")
ALLOC, FREE, STEP, ROLE, ALLOCATOR = 1, 2, 13, 27, 28
TENSOR, DRIVER = 0, 1
LEVELS = {0: "tensor", 1: "driver", 2: "host", 3: "physical"}
KINDS = {1: "alloc", 2: "free", 3: "cancel", 6: "out_of_memory", 13: "step", 17: "resize"}
FIELDS = ("seq", "time", "ptr", "bytes", "aux", "py", "native", "thread", "kind", "level", "device", "api",
          "flags", "placement", "slack")


@pytest.fixture(scope="session")
def events():
    """events(path) is every event of a capture, by a reader that shares nothing with the analyzer."""
    read = {}

    def of(path):
        if path not in read:
            records = spec_reader.read(path).order.records
            read[path] = [dict(zip(FIELDS, r[1:])) for r in records if r[0] == "event"]
        return read[path]

    return of


@pytest.fixture(scope="session")
def exported(tmp_path_factory, analyze):
    """exported("csv", "torch215", *options) is the file that is written of that training."""

    def of(name, environment, *options):
        path = tmp_path_factory.mktemp("exported") / f"report.{name}"
        analyze("export", name, *options, "-o", path, trained(environment).report)
        return path

    return of


def sums(events, level):
    """Figures of a level by its events alone: bytes and number of allocations, what lives at the end
    and what of it is older than the last step."""
    marks = [event["seq"] for event in events if event["kind"] == STEP]
    began = marks[-2] if len(marks) > 1 else None
    live, allocated, number = {}, 0, 0
    for event in events:
        if event["level"] == level and event["kind"] == ALLOC:
            live[event["device"], event["ptr"]] = event
            allocated += event["bytes"]
            number += 1
        elif event["level"] == level and event["kind"] == FREE:
            del live[event["device"], event["ptr"]]
    old = [block for block in live.values() if marks and block["seq"] < (began or 0)]
    leaked = old if marks else list(live.values())
    size = lambda blocks: (len(blocks), sum(block["bytes"] for block in blocks))
    return {"allocated": (number, allocated), "live": size(live.values()), "leaked": size(leaked)}


def csv_rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def as_csv(value):
    return "" if value is None else str(value)


@pytest.mark.parametrize("environment", TORCHES)
def test_folded(environment, exported):
    own = trained(environment).figures["devices"][0]
    stacks = readers.folded(exported("folded", environment))
    assert sum(stacks.values()) == own["max_allocated"]
    end = readers.folded(exported("folded", environment, "--at", "end"))
    assert sum(end.values()) == own["allocated"]


@pytest.mark.parametrize("environment", TORCHES)
def test_speedscope(environment, exported, events):
    run = trained(environment)
    own = run.figures["devices"][0]
    profiles = readers.speedscope(exported("speedscope", environment), SCHEMA)
    totals = {name: total for name, (total, _) in profiles.items()}
    allocated = sums(events(run.report), TENSOR)["allocated"][1]
    assert totals == {"peak": own["max_allocated"], "live": own["allocated"], "allocated": allocated}
    # The same stacks as folded ones have, where a frame carries its line.
    folded = readers.folded(exported("folded", environment))
    assert sorted(profiles["peak"][1].values())[-1] >= max(folded.values())
    assert any(stack[0] == "<module>" for stack in profiles["peak"][1])


@pytest.mark.parametrize("environment", TORCHES)
def test_pprof(environment, exported, events, analyze_json):
    run = trained(environment)
    own = run.figures["devices"][0]
    profile = readers.pprof(exported("pprof", environment))
    totals = readers.pprof_totals(profile)
    figures = sums(events(run.report), TENSOR)
    assert profile.string_table[profile.default_sample_type] == "peak_space"
    assert totals["peak_space"] == own["max_allocated"]
    assert totals["live_space"] == own["allocated"]
    assert totals["allocated_objects"] == own["allocations"]
    assert totals["live_objects"] == own["allocations"] - own["frees"]
    for heading, (number, size) in figures.items():
        assert totals[f"{heading}_objects"] == number, heading
        assert totals[f"{heading}_space"] == size, heading
    assert 0 < totals["leaked_space"] < totals["live_space"]
    texts = profile.string_table
    files = {texts[function.filename] for function in profile.function}
    assert str(PROGRAMS / "train.py") in files
    # The first is the program itself, by whose name readers call the profile.
    assert texts[profile.mapping[0].filename] == analyze_json("report", "--all", run.report)["process"]["executable"]
    builds = {texts[m.filename].rsplit("/", 1)[-1]: texts[m.build_id] for m in profile.mapping}
    (torch,) = [build for name, build in builds.items() if name.startswith("libtorch_cuda.so")]
    assert len(torch) == 40 and int(torch, 16)


def test_pprof_of_another_level_and_moment(exported, analyze_json):
    run = trained("torch215")
    book = run.figures["books"]["devices"][0]["driver"]
    totals = readers.pprof_totals(readers.pprof(exported("pprof", "torch215", "--level", "driver")))
    assert totals["peak_space"] == book["peak"]
    assert totals["live_space"] == book["current"]
    assert totals["allocated_objects"] == book["allocations"]
    rows = analyze_json("lines", "--at", "step=2", run.report)
    at = readers.pprof_totals(readers.pprof(exported("pprof", "torch215", "--at", "step=2")))
    assert at["live_space"] == sum(row["bytes"] for row in rows) != totals["live_space"]
    assert at["peak_space"] == run.figures["devices"][0]["max_allocated"]


@pytest.mark.parametrize("environment", TORCHES)
def test_perfetto(environment, exported, analyze_json):
    run = trained(environment)
    own, books = run.figures["devices"][0], run.figures["books"]["devices"][0]
    trace = readers.perfetto(exported("perfetto", environment))
    values = {}
    for event in trace["C"]:
        values.setdefault(event["name"], []).append((event["ts"], event["args"]["bytes"]))
    greatest = {name: max(value for _, value in points) for name, points in values.items()}
    last = {name: max(points)[1] for name, points in values.items()}
    assert greatest["GPU 0 tensor live"] == own["max_allocated"]
    assert last["GPU 0 tensor live"] == own["allocated"]
    assert greatest["GPU 0 reserved"] == own["max_reserved"]
    assert greatest["GPU 0 driver live"] == books["driver"]["peak"]
    # What a library that is linked in statically takes unseen is in the books alone.
    device = harness.device_of(analyze_json("report", "--all", run.report))
    unexplained = device["unexplained_bytes"]
    assert greatest["GPU 0 physical live"] == books["physical"]["peak"] - unexplained
    for name, points in values.items():
        seconds = max(points)[0] / 1e6 - min(points)[0] / 1e6
        assert len(points) <= 2000 * seconds + 4, name
    slices = [event["name"] for event in trace["B"]]
    assert [name for name in slices if name.startswith("step")] == [f"step {n}" for n in range(1, 5)]
    assert slices.count("backward") == slices.count("optimizer") == 4
    assert own["max_allocated"] in [event["args"]["bytes"] for event in trace["i"]]
    assert "process_name" in [event["name"] for event in trace["M"]]


@pytest.mark.parametrize("environment", TORCHES)
def test_firefox(environment, exported, events):
    run = trained(environment)
    own = run.figures["devices"][0]
    stacks, weights, profile = readers.firefox(exported("firefox", environment))
    assert sum(weights) == own["max_allocated"]
    assert any("<module>" in stack for stack in stacks)
    assert readers.firefox_counters(profile) == {"GPU 0 tensor": own["max_allocated"]}
    _, weights, profile = readers.firefox(exported("firefox", environment, "--at", "end"))
    number, size = sums(events(run.report), TENSOR)["live"]
    assert (len(weights), sum(weights)) == (number, size)
    # Each block with the time and the thread of the event that made it.
    made = {(e["ptr"], e["bytes"]): e for e in events(run.report) if e["kind"] == ALLOC and e["level"] == TENSOR}
    table = profile["threads"][0]["nativeAllocations"]
    for address, weight, time, thread in zip(
        table["memoryAddress"], table["weight"], table["time"], table["threadId"]
    ):
        event = made[address, weight]
        assert (time, thread) == (pytest.approx(event["time"] / 1e6), event["thread"])


@pytest.mark.parametrize("environment", TORCHES)
def test_csv(environment, exported, events):
    run = trained(environment)
    rows = csv_rows(exported("csv", environment))
    recorded = [event for event in events(run.report) if event["kind"] not in (ROLE, ALLOCATOR)]
    assert len(rows) == len(recorded)
    for row, event in zip(rows, recorded):
        for name, of in (("seq", "seq"), ("time_ns", "time"), ("ptr", "ptr"), ("bytes", "bytes"),
                         ("thread", "thread")):
            assert int(row[name]) == event[of], (name, row)
        assert row["kind"] == KINDS.get(event["kind"], row["kind"]), row
        if event["kind"] in (ALLOC, FREE):
            assert row["level"] == LEVELS[event["level"]]
            assert int(row["device"]) == event["device"]
    own = run.figures["devices"][0]
    tensors = [row for row in rows if row["level"] == "tensor"]
    assert max(int(row["live_bytes"]) for row in tensors) == own["max_allocated"]
    assert int(tensors[-1]["live_bytes"]) == own["allocated"]
    blocks = {}
    for row in tensors:
        if row["kind"] == "alloc":
            blocks[row["seq"]] = row
        else:
            # A free has the fields of the block's allocation.
            of = blocks.pop(row["block_seq"])
            whose = ("ptr", "bytes", "file", "line", "function", "node", "phase")
            assert [row[name] for name in whose] == [of[name] for name in whose]
    assert sum(int(row["bytes"]) for row in blocks.values()) == own["allocated"]
    assert {row["step"] for row in rows if row["kind"] == "step"} == {"1", "2", "3", "4"}


def test_csv_lines_are_those_of_lines(exported, analyze_json):
    """What is live by line at the end, worked out from the rows."""
    run = trained("torch215")
    rows = csv_rows(exported("csv", "torch215", "--level", "tensor"))
    sign = {"alloc": 1, "free": -1}
    live = {}
    for row in rows:
        line = row["file"] or None, int(row["line"] or 0) or None, row["node"] or None, row["library"] or None
        live[line] = live.get(line, 0) + sign[row["kind"]] * int(row["bytes"])
    wanted = {}
    for row in harness.parts_of(analyze_json("lines", "--at", "end", run.report)):
        line = row["file"], row["line"], row.get("node"), row.get("library")
        wanted[line] = wanted.get(line, 0) + row["bytes"]
    assert {line: size for line, size in live.items() if size} == wanted


@pytest.mark.parametrize("environment", TORCHES)
def test_sqlite(environment, exported, analyze_json):
    """The rows are those of csv, the stacks those of folded."""
    run = trained(environment)
    database = sqlite3.connect(exported("sqlite", environment))
    database.row_factory = sqlite3.Row
    assert database.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    assert not database.execute("PRAGMA foreign_key_check").fetchall()
    joined = database.execute(
        """SELECT seq, time_ns, kind, level, device, ptr, bytes, live_bytes, block_seq, thread, api, file,
        lines.line AS line, function, node, library, phase, category, step, range
        FROM events LEFT JOIN lines ON lines.id = events.line ORDER BY seq"""
    )
    rows = [{name: as_csv(row[name]) for name in row.keys()} for row in joined]
    wanted = csv_rows(exported("csv", environment))
    # An allocation has the category of its block, as its release has; the category of live blocks is decided at the
    # end.
    ended = {row["block_seq"]: row["category"] for row in wanted if row["kind"] == "free" and row["level"] == "tensor"}
    for row, found in zip(wanted, rows):
        if row["kind"] == "alloc" and row["level"] == "tensor":
            row["category"] = ended.get(row["seq"], found["category"])
            assert row["category"], row
    assert rows == wanted
    peak = database.execute("SELECT max(live_bytes) FROM events WHERE level = 'tensor'").fetchone()[0]
    assert peak == run.figures["devices"][0]["max_allocated"]
    # What is live at the end, by the function at the root of the stack that allocated it.
    live = database.execute(
        """SELECT sum(bytes * CASE kind WHEN 'alloc' THEN 1 ELSE -1 END) FROM events
        JOIN stacks ON stacks.id = events.stack AND depth = 0 JOIN frames ON frames.id = frame
        WHERE level = 'tensor' AND frames.name = '<module>'"""
    ).fetchone()[0]
    folded = readers.folded(exported("folded", environment, "--at", "end"))
    assert live == sum(size for stack, size in folded.items() if stack[0].startswith("<module> ")) > 0
    # Every stack is whole: depths from 0 on without a gap.
    gaps = database.execute(
        "SELECT count(*) FROM (SELECT id FROM stacks GROUP BY id HAVING max(depth) + 1 != count(*))"
    )
    assert gaps.fetchone()[0] == 0
    facts = dict(database.execute("SELECT key, value FROM facts").fetchall())
    summary = analyze_json("report", "--all", run.report)
    assert (int(facts["events"]), int(facts["pid"])) == (summary["events"], summary["process"]["pid"])
    (device,) = database.execute("SELECT * FROM devices").fetchall()
    assert device["uuid"] == run.figures["books"]["devices"][0]["uuid"]


@pytest.mark.parametrize("environment", TORCHES)
def test_parquet(environment, exported):
    """By DuckDB and by polars: the rows of csv."""
    run = trained(environment)
    path, rows = exported("parquet", environment), csv_rows(exported("csv", environment))
    names = ", ".join(rows[0])
    found = duckdb.sql(f"SELECT {names} FROM '{path}' ORDER BY seq").fetchall()
    assert [[as_csv(value) for value in row] for row in found] == [list(row.values()) for row in rows]
    frame = polars.read_parquet(path)
    assert frame.height == len(rows)
    assert frame["seq"].is_sorted()
    tensors = frame.filter(polars.col("level") == "tensor")
    own = run.figures["devices"][0]
    assert tensors["live_bytes"].max() == own["max_allocated"]
    by_kind = dict(tensors.group_by("kind").agg(polars.col("bytes").sum()).iter_rows())
    assert by_kind["alloc"] - by_kind["free"] == own["allocated"]
    encodings = duckdb.sql(f"SELECT encodings FROM parquet_metadata('{path}') WHERE path_in_schema = 'file'")
    assert all("DICTIONARY" in row[0] for row in encodings.fetchall())


@pytest.mark.parametrize("environment", TORCHES)
def test_prometheus(environment, exported, analyze_json):
    run = trained(environment)
    families = {f.name: f for f in text_string_to_metric_families(exported("prometheus", environment).read_text())}
    summary = analyze_json("report", "--all", run.report)
    own, books = run.figures["devices"][0], run.figures["books"]["devices"][0]

    def value(name, **labels):
        samples = [s for f in families.values() for s in f.samples if s.name == name]
        found = [s.value for s in samples if labels.items() <= s.labels.items()]
        assert len(found) == 1, (name, labels)
        return found[0]

    assert value("gpumem_process_memory_bytes", device="0", level="tensor") == own["allocated"]
    assert value("gpumem_process_memory_peak_bytes", device="0", level="tensor") == own["max_allocated"]
    assert value("gpumem_reserved_peak_bytes", device="0") == own["max_reserved"]
    assert value("gpumem_process_memory_peak_bytes", device="0", level="driver") == books["driver"]["peak"]
    assert value("gpumem_frees_total", device="0", level="driver") == books["driver"]["frees"]
    assert value("gpumem_unexplained_bytes", device="0") == summary["devices"][0]["unexplained_bytes"]
    assert value("gpumem_events_total") == summary["events"]
    assert value("gpumem_lost_events_total") == 0
    assert value("gpumem_steps_total") == 4
    assert value("gpumem_exact") == summary["exact"]
    assert all(f.documentation for f in families.values())
    kinds = {f.type for f in families.values()}
    assert kinds == {"gauge", "counter"}


TEXT = ("folded", "speedscope", "perfetto", "firefox", "csv", "prometheus")  # the last is a form of live now
BINARY = ("pprof", "sqlite", "parquet", "arrow-stream")


@pytest.mark.parametrize("name", TEXT + BINARY)
def test_the_same_capture_gives_the_same_bytes(name, exported, analyze):
    report = trained("torch215").report
    again = subprocess.run(
        [harness.ANALYZER, "export", name, "-o", "-", report], capture_output=True, check=True
    )
    assert again.stdout == exported(name, "torch215").read_bytes()


@pytest.mark.parametrize("name", BINARY)
def test_a_terminal_is_spared(name):
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [harness.ANALYZER, "export", name, "-o", "-", trained("torch215").report],
        stdout=theirs, stderr=subprocess.PIPE, text=True,
    )
    os.close(theirs)
    os.close(ours)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "terminal" in done.stderr


@pytest.mark.parametrize("name", TEXT + BINARY)
def test_a_partial_capture_is_said_to_be_one(name, analyze, tmp_path):
    capture = harness.ROOT / "tests" / "fixtures" / "captures" / "v1" / "lost.bin"
    out = tmp_path / "out"
    done = analyze("export", name, "-o", out, capture, check=False)
    assert done.returncode == 3, harness.described(done)
    assert "gpumem-analyze: partial: " in done.stderr
    assert out.stat().st_size > 0


@pytest.mark.parametrize(
    "arguments",
    [("csv", "--at", "end"), ("arrow-stream", "--at", "end"), ("parquet", "--columns", "seq"), ("perfetto", "--file", "x"), ("prometheus", "--level", "host")],
)
def test_options_that_mean_nothing_are_refused(arguments, analyze):
    done = analyze("export", *arguments, "-o", "-", trained("torch215").report, check=False)
    assert done.returncode == 2
    assert arguments[1] in done.stderr and done.stdout == ""
