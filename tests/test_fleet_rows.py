"""`gpumem-analyze fleet rows`: each figure of the dataset's rows equals the one in the views.

What breaks these tests: a row of another moment or level, a holder that is left out or counted twice, a key without
its line, a name that is not replaced where hashes replace names."""

import csv
import io
import json
from collections import Counter, defaultdict

import harness
import pytest

SCRIPT = harness.WORKLOADS / "fleet_rows.py"


@pytest.fixture(scope="module")
def recorded(python_env, tmp_path_factory):
    """The capture, and the machine's name."""
    folder = tmp_path_factory.mktemp("rows")
    command = [python_env("torch215"), SCRIPT]
    done = harness.simulate(
        command, cwd=folder, preload=True, devices=2,
        env={"GPUMEM_QUIET": "1", "RANK": "1", "WORLD_SIZE": "2", "SLURM_JOB_ID": "4711", "GPUMEM_COORDS": "pp=1,dp=0"},
    )
    [report] = folder.glob("*.bin")
    return report, done.stdout.strip()


def rows_of(report, *arguments):
    sources = ("--source-root", harness.WORKLOADS)
    return harness.unwrapped(harness.analyze("fleet", "rows", "--format", "json", *sources, *arguments, report).stdout)


@pytest.fixture(scope="module")
def report(recorded):
    return recorded[0]


@pytest.fixture(scope="module")
def rows(report):
    return rows_of(report, "--events", "--label", "team=vision", "--label", "queue=a=b")


def short(file):
    return file and file.rpartition("/site-packages/")[2]


def place(of):
    """The fields that identify a line, in the dataset or in a view's row."""
    workspace = of.get("workspace", of.get("label", "").endswith("(cuBLAS workspace)"))
    return short(of["file"]), of["line"], of["function"], of.get("node"), of.get("library"), workspace


def held(rows, moment, levels, by):
    """Bytes and blocks by device and what `by` gives of a row and its line."""
    lines = {line["line_key"]: line for line in rows["lines"]}
    sums = defaultdict(Counter)
    for row in rows["held"]:
        if row["moment"] == moment and row["level"] in levels:
            of = sums[row["device"], by(row, lines[row["line_key"]])]
            of.update(bytes=row["bytes"], blocks=row["blocks"])
    return dict(sums)


def viewed(view, by, device=None):
    sums = defaultdict(Counter)
    for row in harness.parts_of(view):
        if device in (None, row["device"]):
            sums[row["device"], by(row)].update(bytes=row["bytes"], blocks=row["blocks"])
    return dict(sums)


def by_line(row, line):
    return place(line)


def test_holders_are_those_of_lines_categories_and_modules(rows, report):
    for moment in ("peak", "end"):
        def view(level, *by):
            return harness.analyze_json("lines", "--level", level, "--at", moment, *by, report)

        assert held(rows, moment, ["tensor"], by_line) == viewed(view("tensor"), place)
        assert held(rows, moment, ["pool", "driver"], by_line) == viewed(view("driver"), place)
        assert held(rows, moment, ["tensor"], lambda row, line: row["category"]) == viewed(
            view("tensor", "--by", "category"), lambda row: row["category"]
        )
        assert held(rows, moment, ["tensor"], lambda row, line: (row["module"], place(line)[-1])) == viewed(
            view("tensor", "--by", "module"), lambda row: (row["module"], row.get("workspace", False))
        )
    names = {line["line_key"]: line["label"] for line in rows["lines"]}
    [itself] = [row for row in rows["held"] if (row["moment"], row["level"], row["bytes"]) == ("end", "driver", 5 << 20)]
    assert names[itself["line_key"]].startswith(f"{SCRIPT}:")
    assert {row["category"] for row in rows["held"] if row["level"] != "tensor"} == {None}


def test_sums_are_the_levels_own_figures(rows, report):
    devices = harness.analyze_json("report", "--all", report)["devices"]
    assert len(devices) == 2
    for moment, figure in (("peak", "peak_bytes"), ("end", "live_bytes")):
        sums = Counter()
        for row in rows["held"]:
            if row["moment"] == moment:
                sums[row["device"], row["level"]] += row["bytes"]
        for device in devices:
            at = device["ordinal"]
            assert sums[at, "tensor"] == device["tensor"][figure] > 0
            assert sums[at, "pool"] + sums[at, "driver"] == device["driver"][figure]
            # At the peak, both of one moment: not more than both levels' own peaks differ by.
            overhead = device["physical"][figure] - device["driver"][figure]
            assert 0 < sums[at, "overhead"] <= overhead or moment == "peak"
            assert moment == "peak" or sums[at, "overhead"] == overhead


def test_a_failure_is_that_of_oom(rows, report):
    oom = harness.analyze_json("oom", report)
    assert held(rows, "failure", ["tensor"], by_line).items() >= viewed(oom["tensor"], place, 0).items()
    failed = {of: sums for of, sums in held(rows, "failure", ["pool", "driver"], by_line).items() if of[0] == 0}
    assert failed == viewed(oom["driver"], place, 0) != {}
    labels = {line["line_key"]: line["label"] for line in rows["lines"]}
    started = harness.analyze_json("report", "--all", report)["process"]["started_unix_ns"]
    assert len(rows["failures"]) == oom["count"] == 2
    for row, failure in zip(rows["failures"], oom["failures"], strict=True):
        cause = harness.analyze_json("oom", "--failure", str(failure["number"]), report)["cause"]
        assert (row["cause"], row["free_bytes"]) == (cause["kind"], cause["free_bytes"])
        assert (row["raised"], row["wanted_bytes"]) == (failure["exception"], failure["requested_bytes"])
        assert labels[row["line_key"]] == failure["line"]
        assert row["time"] == (started + failure["time_ns"]) // 1000
        if row["raised"]:
            assert row["tensor_bytes"] == cause["live_bytes"]
            assert row["reserved_bytes"] - row["tensor_bytes"] == cause["cached_bytes"]
    assert [(row["raised"], row["step"]) for row in rows["failures"]] == [(False, 1), (True, 4)]


def test_ledgers_are_those_of_ledger(rows, report):
    for moment in ("peak", "end"):
        found = sorted(
            (row["device"], row["entry"], str(row["owner"]), row["bytes"])
            for row in rows["ledger"] if row["moment"] == moment
        )
        view = harness.analyze_json("ledger", "--at", moment, report)
        assert found == sorted(
            (ledger["device"], row["kind"], str(row["library"]), row["bytes"]) for ledger in view for row in ledger["rows"]
        )
        assert {device for device, *_ in found} == {0, 1}


def test_the_rank_is_that_of_ranks_and_summary(rows, recorded):
    report, host = recorded
    [row] = rows["ranks"]
    summary = harness.analyze_json("report", "--all", report)
    done = harness.analyze("ranks", "--format", "json", report, check=False)
    [rank] = harness.unwrapped(done.stdout)["ranks"]
    for name, other in (
        ("rank", "rank"), ("host", "host"), ("pid", "pid"), ("local_rank", "local_rank"), ("device", "device"),
        ("uuid", "uuid"), ("card_bytes", "card_bytes"), ("tensor_peak_bytes", "tensor_peak_bytes"),
        ("reserved_peak_bytes", "reserved_peak_bytes"), ("process_peak_bytes", "device_peak_bytes"),
        ("unexplained_bytes", "unexplained_bytes"), ("steps", "steps"), ("ending", "ended"), ("wanted_bytes", "wanted_bytes"),
    ):
        assert row[name] == rank.get(other), name
    process = summary["process"]
    assert (row["host"], row["device"], row["steps"]) == (host, 0, 5)
    assert (row["started"], row["ended"]) == (process["started_unix_ns"] // 1000, rank["at_unix_ns"] // 1000)
    assert (row["exact"], row["missing"], row["events"]) == (True, None, summary["events"])
    assert (row["program"], row["python"]) == (process["command"], process["python"])
    assert (row["driver"], row["recorder"]) == (process["driver_version"], process["recorder_version"])
    assert (row["pytorch"], row["allocator"]) == (process["pytorch"]["version"], "native")
    assert (row["gpu"], row["world_size"], row["schema"]) == (summary["devices"][0]["name"], 2, 1)
    assert (rows["run"], row["job"]) == ("slurm-4711", "slurm:4711")
    assert (row["coordinates"], row["peers"]) == ("dp=0,pp=1", "pp=1")
    assert len(row["version"]) == 16 and int(row["version"], 16)
    assert row["file"] == str(report)
    assert [(label["key"], label["value"]) for label in rows["labels"]] == [("team", "vision"), ("queue", "a=b")]
    every = [row for name, table in rows.items() if isinstance(table, list) for row in table if name not in ("lines", "frames")]
    assert {of["capture"] for of in every} == {row["capture"]}


def test_events_are_those_of_the_export(rows, report):
    table = harness.analyze("export", "csv", "-o", "-", report).stdout
    lines = {line["line_key"]: line for line in rows["lines"]}
    [rank] = rows["ranks"]
    started = harness.analyze_json("report", "--all", report)["process"]["started_unix_ns"]

    def number(text):
        return int(text) if text else None

    events = list(csv.DictReader(io.StringIO(table)))
    assert len(events) == len(rows["events"]) > 500
    for event, row in zip(events, rows["events"]):
        for name in ("seq", "device", "ptr", "bytes", "live_bytes", "block_seq", "step"):
            assert row[name] == number(event[name]), (name, event)
        for name in ("kind", "level", "category"):
            assert row[name] == (event[name] or None), (name, event)
        assert row["time"] == (started + int(event["time_ns"])) // 1000
        line = lines.get(row["line_key"]) or {}
        assert (line.get("file") or "", line.get("line")) == (short(event["file"]), number(event["line"])), event


def test_series_and_steps_have_the_greatest_figures(rows, report):
    summary = harness.analyze_json("report", "--all", report)
    started = summary["process"]["started_unix_ns"]
    for device in summary["devices"]:
        series = defaultdict(list)
        for point in rows["series"]:
            if point["device"] == device["ordinal"]:
                series[point["level"]].append(point)
        peaks = {
            "tensor": device["tensor"]["peak_bytes"],
            "reserved": device["reserved"]["peak_bytes"],
            "process": device["physical"]["peak_bytes"],
        }
        assert {level: max(of["bytes"] for of in points) for level, points in series.items()} == peaks
        changes = [
            ((started + at) // 1000, live)
            for at, live in tensors_of(report, device["ordinal"])
        ]
        for points in series.values():
            [width] = {of["width_us"] for of in points}
            assert width & (width - 1) == 0 and len(points) <= 64
            times = [of["time"] for of in points]
            assert times == list(range(times[0], times[0] + width * len(times), width)) and times[0] % width == 0
        for point in series["tensor"]:
            begin, end = point["time"], point["time"] + point["width_us"]
            before = [live for at, live in changes if at < begin][-1:]
            assert point["bytes"] == max(before + [live for at, live in changes if begin <= at < end], default=0)
    steps = [row for row in rows["steps"] if row["device"] == 0]
    assert [(row["first_step"], row["steps"]) for row in steps] == [(number, 1) for number in range(1, 6)]
    at_peak = harness.analyze_json("lines", "--step", "3", "--level", "tensor", report)
    assert max(steps, key=lambda row: row["bytes"])["first_step"] == 3 and at_peak
    assert max(row["bytes"] for row in steps) == summary["devices"][0]["tensor"]["peak_bytes"]


def tensors_of(report, device):
    table = harness.analyze("export", "csv", "--level", "tensor", "--device", str(device), "-o", "-", report).stdout
    return [(int(row["time_ns"]), int(row["live_bytes"])) for row in csv.DictReader(io.StringIO(table)) if row["live_bytes"]]


def test_a_stack_is_one_of_the_tree_with_most_bytes(rows, report):
    stacks = defaultdict(list)
    for frame in rows["frames"]:
        assert frame["depth"] == len(stacks[frame["stack_key"]])
        where = f" ({frame['file']}:{frame['line']})" if frame["file"] and frame["line"] else ""
        stacks[frame["stack_key"]].append(frame["function"] + where)
    tree = harness.analyze_json("tree", "--level", "tensor", "--at", "peak", report)
    held = [row for row in rows["held"] if (row["moment"], row["level"]) == ("peak", "tensor")]
    assert {row["stack_key"] for row in held} <= set(stacks)

    def found(nodes, frames):
        if not frames:
            return True
        return any(node["frame"] == frames[0] and found(node["children"], frames[1:]) for node in nodes)

    [root] = tree if isinstance(tree, list) else [tree]
    for row in held:
        of_device = [node for node in root["children"] if node["frame"] == f"GPU {row['device']}"]
        assert found(of_device[0]["children"], stacks[row["stack_key"]]), stacks[row["stack_key"]]
    forward = [row for row in held if row["category"] == "activation"]
    assert any("Block.forward" in frame for row in forward for frame in stacks[row["stack_key"]])


def test_text_counts_rows(rows, report):
    text = harness.analyze("fleet", "rows", report).stdout
    assert text.startswith("Run slurm-4711: rows by table\n")
    counts = dict(line.split() for line in text.splitlines()[1:])
    assert counts["held"] == str(len(rows["held"])) and counts["ranks"] == "1" and counts["labels"] == "0"


def test_names_can_be_hashed(rows, recorded, tmp_path):
    report, host = recorded
    sources = ("--source-root", harness.WORKLOADS)
    hashed = harness.analyze("fleet", "rows", "--format", "json", *sources, "--hash-paths", "--events", report).stdout
    plain = json.dumps(rows)
    for name in (SCRIPT.name, "fleet_rows", "workloads", "torch/nn/", f'"{host}"', "Block", "too_much", str(report), "zeros("):
        assert name in plain, name
        assert name not in hashed, name
    assert [row["line_key"] for row in harness.unwrapped(hashed)["held"]] == [row["line_key"] for row in rows["held"]]
    assert "activation" in hashed and "libtorch_cuda.so" in hashed and "AddmmBackward0" in hashed
    secret = tmp_path / "secret"
    secret.write_bytes(b"abc")
    by_secret = rows_of(report, "--hash-paths", "--secret", secret)
    assert not {row["line_key"] for row in by_secret["held"]} & {row["line_key"] for row in rows["held"]}
    assert not {row["stack_key"] for row in by_secret["frames"]} & {row["stack_key"] for row in rows["frames"]}
    assert by_secret["ranks"][0]["capture"] == rows["ranks"][0]["capture"]
    assert any(line["text"] for line in rows["lines"])
    assert not any(line["text"] for line in rows_of(report, "--no-source")["lines"])


@pytest.mark.parametrize(
    "arguments, status, says",
    [
        (["--label", "team"], 2, "expected KEY=VALUE, as team=vision"),
        (["--secret", "/dev/null"], 1, "/dev/null: the secret is empty: create one with head -c 32 /dev/urandom"),
        (["--secret", "nowhere"], 1, "cannot read the secret nowhere"),
    ],
)
def test_what_cannot_be_taken_is_said(arguments, status, says, report):
    done = harness.analyze("fleet", "rows", *arguments, report, check=False)
    assert (done.returncode, done.stdout) == (status, "")
    assert says in done.stderr


def test_what_is_asked_for_counts(report):
    rows = rows_of(report, "--run", "a b", "--version", "v7")
    assert (rows["run"], rows["ranks"][0]["version"]) == ("a-b", "v7")
