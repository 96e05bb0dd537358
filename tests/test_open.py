"""Captures read from Python: `gpumem.open`, against the output of gpumem-analyze.

What breaks these tests: a figure that is not the analyzer's, an event that is left out or of another level, a name
under a wrong number, a process that stays after its reader has stopped, and an error without advice."""

import csv
import io
import itertools
import json
import os
import textwrap

import harness
import pytest

CAPTURES = harness.CAPTURES
DEMO = CAPTURES / "demo.bin"
LOST = harness.ROOT / "tests" / "fixtures" / "captures" / "v1" / "lost.bin"
PACKAGE = {"PYTHONPATH": str(harness.ROOT / "python")}
# Neither torch nor a GPU is needed to read a capture.
START = "import json, sys, warnings\nimport gpumem\n"


@pytest.fixture
def ran(python_env):
    """ran(code, environment) runs Python code with the package, and returns what it has printed."""

    def run(code, environment="frames", check=True, env=None):
        code = START + textwrap.dedent(code)
        return harness.run([python_env(environment), "-c", code], env={**PACKAGE, **(env or {})}, check=check)

    return run


@pytest.fixture
def told(ran):
    """The same, of code that prints JSON."""
    return lambda *arguments, **options: json.loads(ran(*arguments, **options).stdout)


def paths(*names):
    return [str(CAPTURES / f"{name}.bin") for name in names]


def test_a_summary_is_the_analyzers(told, analyze_json):
    captures = paths("demo", "oom", "leak", "nccl")
    said = told(f"""
        summaries = [gpumem.open(path).summary() for path in {captures!r}]
        levels = lambda of: [of.ordinal, of.tensor, of.driver, of.host, of.physical]
        print(json.dumps([[summary.raw, list(map(levels, summary.devices))] for summary in summaries]))
    """)
    for path, (raw, devices) in zip(captures, said, strict=True):
        wanted = analyze_json("report", "--all", path)
        assert raw == wanted
        for (ordinal, *levels), of in zip(devices, wanted["devices"], strict=True):
            assert ordinal == of["ordinal"]
            for found, level in zip(levels, ("tensor", "driver", "host", "physical")):
                names = ("live_bytes", "peak_bytes", "allocations", "frees")
                assert found == [of[level].get(name) for name in names]


def test_lines_are_the_analyzers(told, analyze_json):
    cases = list(itertools.product(["peak", "end", 3000, "step=2"], [None, "tensor", "driver", "host"]))
    said = told(f"""
        capture, found = gpumem.open({str(DEMO)!r}), []
        for at, level in {cases!r}:
            rows = capture.lines(at=at, level=level)
            found.append([[row._asdict() for row in rows], rows.total()])
        print(json.dumps(found))
    """)
    for (at, level), (rows, total) in zip(cases, said, strict=True):
        options = ["--at", str(at), *(["--level", level] if level else [])]
        wanted = analyze_json("lines", *options, DEMO)
        assert total == sum(row["bytes"] for row in wanted if row["device"] == 0), options
        for row, of in zip(rows, wanted, strict=True):
            # A row of the package is a whole line.
            of.pop("parts", None)
            categories = [[each["category"], each["bytes"]] for each in of.pop("categories", [])]
            assert row.pop("categories") == categories
            assert row == {**dict.fromkeys(row), "workspace": False, **of}, options


def test_other_rows_are_the_analyzers(told, analyze_json):
    said = told(f"""
        capture = gpumem.open({str(DEMO)!r})
        print(json.dumps({{by: [row._asdict() for row in capture.lines(by=by)] for by in ("module", "category")}}))
    """)
    for by, rows in said.items():
        wanted = analyze_json("lines", "--by", by, DEMO)
        assert len(rows) == len(wanted) > 1
        for row, of in zip(rows, wanted):
            of = {"class_" if name == "class" else name: value for name, value in of.items()}
            assert row == {**dict.fromkeys(row), **({"workspace": False} if by == "module" else {}), **of}


def test_filters_are_the_analyzers(told, analyze_json):
    rows = told(f"""
        capture = gpumem.open({str(DEMO)!r})
        rows = capture.lines("peak", "tensor", device="cuda:0", file="train", function="forward", size="1MiB..", phase="forward")
        print(json.dumps([[row.line, row.bytes] for row in rows]))
    """)
    options = ("--file", "train", "--function", "forward", "--size", "1MiB..", "--phase", "forward", "--device", "0")
    wanted = analyze_json("lines", *options, "--level", "tensor", DEMO)
    assert rows == [[row["line"], row["bytes"]] for row in wanted]
    assert rows


def test_events_are_the_rows_of_csv(told, analyze):
    captures = paths("demo", "oom", "nccl")
    said = told(f"print(json.dumps([gpumem.open(path).events().to_arrow().to_pydict() for path in {captures!r}]))")
    for path, columns in zip(captures, said, strict=True):
        rows = list(csv.DictReader(io.StringIO(analyze("export", "csv", "-o", "-", path).stdout)))
        assert set(columns) == {*rows[0], "python_stack", "native_stack"}
        for column in rows[0]:
            assert ["" if value is None else str(value) for value in columns[column]] == [row[column] for row in rows], column


def test_running_sums_are_the_levels_figures(told, analyze_json):
    """What events add and take away, level by level: the greatest sum is the peak, the last one what is live."""
    captures = paths("demo", "oom", "leak")
    said = told(f"""
        def sums_of(path):
            sums = {{}}
            for batch in gpumem.open(path).events():
                for row in batch.select(["kind", "level", "device", "bytes", "live_bytes"]).to_pylist():
                    sign = {{"alloc": 1, "free": -1, "cancel": 1}}.get(row["kind"])
                    if sign and row["device"] is not None:
                        of = sums.setdefault(f'{{row["device"]}} {{row["level"]}}', [0, 0])
                        of[0] += sign * row["bytes"]
                        of[1] = max(of)
                        assert row["level"] == "physical" or of[0] == row["live_bytes"], row
            return sums
        print(json.dumps(list(map(sums_of, {captures!r}))))
    """)
    for path, sums in zip(captures, said, strict=True):
        for device in analyze_json("report", "--all", path)["devices"]:
            for level in ("tensor", "driver", "host"):
                live, peak = sums.get(f"{device['ordinal']} {level}", [0, 0])
                assert (live, peak) == (device[level]["live_bytes"], device[level]["peak_bytes"]), (path, level)


def test_frames(told, analyze, analyze_json):
    """pandas, polars and any reader of Arrow's streams have the same rows, and texts as categories."""
    found = told(f"""
        import pandas, polars, pyarrow
        capture = gpumem.open({str(DEMO)!r})
        events = capture.events("tensor")
        table, pandas_frame, polars_frame = events.to_arrow(), events.to_frame(), events.to_polars()
        through = pyarrow.RecordBatchReader.from_stream(events).read_all()
        assert through == table and polars.DataFrame(events).height == table.num_rows
        assert isinstance(pandas_frame["file"].dtype, pandas.CategoricalDtype)
        assert polars_frame["file"].dtype == polars.Categorical
        by_line = polars_frame.filter(polars.col("kind") == "alloc").group_by("line").agg(polars.col("bytes").sum())
        of_pandas = pandas_frame[pandas_frame["kind"] == "alloc"].groupby("line")["bytes"].sum()
        assert {{line: size for line, size in by_line.iter_rows() if line is not None}} == of_pandas.to_dict()
        lines = capture.lines("peak")
        assert lines.to_frame()["bytes"].sum() == lines.to_polars()["bytes"].sum() == lines.total()
        assert capture.summary().to_frame().query("level == 'tensor'")["peak_bytes"].sum() == lines.total() > 0
        assert capture.to_frame().shape[0] == capture.to_polars().height > table.num_rows
        print(json.dumps([table.num_rows, table.schema.metadata[b"gpumem.host"].decode()]))
    """)
    rows = analyze("export", "csv", "--level", "tensor", "-o", "-", DEMO).stdout.count("\n") - 1
    assert found == [rows, analyze_json("report", "--all", DEMO)["process"]["host"]]


def test_columns(told):
    """The requested columns, in their usual order, equal those of the full table."""
    found = told(f"""
        capture = gpumem.open({str(DEMO)!r})
        whole, names = capture.events().to_arrow(), ["bytes", "seq", "file"]
        part = capture.events(columns=names).to_arrow()
        assert part == whole.select(part.column_names) and part.num_rows > 0
        numbers = capture.events(columns=["live_bytes"]).to_arrow()
        assert numbers == whole.select(["live_bytes"])
        rest = [name for name in whole.column_names if name not in ("phase", "category")]
        assert capture.events(columns=rest).to_arrow() == whole.select(rest)
        print(json.dumps(part.column_names))
    """)
    assert found == ["seq", "bytes", "file"]


def test_batches_are_streamed(told, tmp_path):
    """A capture of many batches: the first is there long before the last, its numbers lie in the memory that was read, and
    ending early ends the analyzer, without a message."""
    path = tmp_path / "report.bin"
    harness.run([harness.EXAMPLES / "long_run", "record", path, "400000", "full", "100"])
    counts = told(f"""
        import os, pyarrow
        def children():
            return open(f"/proc/self/task/{{os.getpid()}}/children").read().split()
        capture = gpumem.open({str(path)!r})
        for batch in capture.events():
            running = len(children())
            break
        del batch
        left = len(children())
        before = pyarrow.total_allocated_bytes()
        first = next(iter(capture.events()))
        held, size = pyarrow.total_allocated_bytes() - before, first.nbytes
        whole = sum(batch.num_rows for batch in capture.events())
        print(json.dumps([running, left, held <= 1.1 * size, first.num_rows, whole, capture.summary().events]))
    """)
    running, left, is_in_place, first, whole, events = counts
    assert (running, left, is_in_place, first) == (1, 0, True, 65536)
    assert whole == events >= 400000


def test_a_partial_capture_warns(told):
    found = told(f"""
        capture = gpumem.open({str(LOST)!r})
        said = []
        for read in (capture.summary, capture.lines, lambda: list(capture.events())):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                read()
            said.append([str(of.message) for of in caught if of.category is gpumem.PartialCapture])
        print(json.dumps([said, capture.summary().missing]))
    """)
    said, missing = found
    assert missing and said == [[f"{LOST}: {line}" for line in missing]] * 3


# Code, and the last line of its traceback. FOREIGN is a file of another program.
ERRORS = [
    ("gpumem.open('/nowhere/report.bin')", "FileNotFoundError: [Errno 2] No such file or directory: '/nowhere/report.bin'"),
    ("gpumem.open(FOREIGN).summary()", "Unreadable: {foreign}: not a gpumem capture"),
    ("list(gpumem.open(FOREIGN).events())", "Unreadable: {foreign}: not a gpumem capture"),
    ("gpumem.open(FOREIGN).lines()", "Unreadable: {foreign}: not a gpumem capture"),
    ("gpumem.open(DEMO).lines('never')", "Unreadable: "),
    ("gpumem.open(DEMO).lines(by='colour')", "ValueError: by='colour': expected one of line, module, category"),
    ("gpumem.open(DEMO).lines(level='disk')", "ValueError: level='disk': expected one of tensor, driver, host"),
    ("list(gpumem.open(DEMO).events(columns=['colour']))", "there is no column \"colour\": there are seq, time_ns, kind"),
    ("list(gpumem.open(DEMO).events(device=7))", "Unreadable: --device 7: the capture has only GPU 0"),
]


def test_an_error_is_one_line(told, tmp_path):
    foreign = tmp_path / "foreign.bin"
    foreign.write_bytes(b"nothing of gpumem's" * 9000)
    said = told(f"""
        import traceback
        FOREIGN, DEMO = {str(foreign)!r}, {str(DEMO)!r}
        def error_of(code):
            try:
                eval(code)
            except Exception as error:
                return traceback.format_exception_only(type(error), error)
        print(json.dumps(list(map(error_of, {[code for code, _ in ERRORS]!r}))))
    """)
    for (code, error), lines in zip(ERRORS, said, strict=True):
        assert lines and len(lines) == 1 and lines[0].count("\n") == 1, (code, lines)
        assert error.format(foreign=foreign) in lines[0], (code, lines)


def test_a_missing_analyzer(ran):
    for named in ("/nowhere/gpumem-analyze", str(DEMO)):
        done = ran(f"gpumem.open({str(DEMO)!r}).summary()", check=False, env={"GPUMEM_ANALYZE": named})
        last = done.stderr.rstrip().splitlines()[-1]
        assert last.startswith(f"FileNotFoundError: {named}: ") and "GPUMEM_ANALYZE" in last


def test_without_pyarrow(ran):
    """Summaries and lines need no other package; events say what to install."""
    done = ran(f"print(gpumem.open({str(DEMO)!r}).lines().total() > 0)", environment="py38")
    assert done.stdout == "True\n"
    for method, package in (("list(of.events())", "pyarrow"), ("of.to_frame()", "pandas"), ("of.to_polars()", "polars")):
        done = ran(f"of = gpumem.open({str(DEMO)!r})\n{method}", environment="py38", check=False)
        last = done.stderr.rstrip().splitlines()[-1]
        assert last.startswith("ImportError: ") and last.endswith(f"not installed: pip install {package}"), done.stderr


def test_a_closed_capture(told):
    found = told(f"""
        said = []
        with gpumem.open({str(DEMO)!r}) as capture:
            events, running = capture.events(), iter(capture.events())
        assert capture.closed and "closed" in repr(capture)
        for use in (capture.summary, capture.lines, capture.events, lambda: iter(events), lambda: list(running), capture.__enter__):
            try:
                use()
            except ValueError as error:
                said.append(str(error))
        print(json.dumps(said))
    """)
    assert found == [f"{DEMO}: the capture is closed"] * 6


def test_types(python_env, tmp_path):
    """mypy accepts the package, strictly (python/pyproject.toml), and the argument `by` selects the type of the rows."""
    script = tmp_path / "use.py"
    script.write_text(
        "import gpumem\n"
        "capture = gpumem.open('report.bin')\n"
        "reveal_type(capture.lines('end', 'driver'))\n"
        "reveal_type(capture.lines(by='module'))\n"
        "reveal_type(capture.lines(by='category')[0].category)\n"
        "reveal_type(capture.summary().device(0).tensor.peak_bytes)\n"
        "reveal_type(gpumem.holders(top=3, device='cuda:1')[0].frees)\n"
        "capture.lines(by='colour')\n"
    )
    python = python_env("frames")
    package = harness.ROOT / "python"
    mypy = [python, "-m", "mypy", "--config-file", package / "pyproject.toml"]
    environment = {"MYPYPATH": str(package), "MYPY_CACHE_DIR": str(tmp_path / "cache")}
    harness.run([*mypy, "-p", "gpumem"], env=environment, cwd=tmp_path)
    said = harness.run([*mypy, script], env=environment, cwd=tmp_path, check=False).stdout
    for wanted in ("fallback=gpumem._reading.results.LineRow]", "fallback=gpumem._reading.results.ModuleRow]", '"str"', '"int | None"', "call-overload"):
        assert wanted in said, said
    assert os.linesep.join(said.splitlines()).count(" error: ") == 1, said
