"""`gpumem-analyze live --serve`: points in time, details, and the captures of a folder, in a browser.

What breaks these tests: a moment whose figures are not those of `lines` at that event, an account that is not
`ledger`'s, a reader who gets another's moment, readers without a bound, and a request that opens any other file."""

import shutil

import harness
import pytest
from on_demand import Program
from test_live import program  # noqa: F401  (a fixture is found by name)
from test_live_serve import FIXTURES, Served, ended, named, windows  # noqa: F401
from waiting import until

KILLED = FIXTURES / "torch-kill.bin"


def lines(path, at, level="tensor"):
    rows = harness.analyze_json("lines", "--at", str(at), "--level", level, path, check=False)
    return sorted((named(row), row["bytes"]) for row in rows)


class Reader:
    """A client that requests moments, without a browser."""

    def __init__(self, served, name, below="/"):
        self.served, self.path = served, f"{below}moment?client={name}"

    def ask(self, at, **choices):
        query = "".join(f"&{name}={value}" for name, value in choices.items())
        return self.served.ask_json(f"{self.path}&at={at}{query}")

    def read(self, at, **choices):
        """The moment, once it was read."""
        def answer():
            said = self.ask(at, **choices)
            return said if said["state"] not in ("reading", "waiting") else None

        return until(answer, at)


def rows_of(told):
    return sorted((row["name"], row["bytes"]) for row in told["table"]["rows"])


@pytest.mark.parametrize("share", [0.4, 0.6, 0.9])
def test_a_moment_is_what_lines_says_of_its_event(ended, share):  # noqa: F811
    """Of an event, and of the time of one."""
    last = harness.analyze_json("report", "--all", KILLED, check=False)["last_event"]
    at = int(last * share)
    told = Reader(ended, "a").read(f"event:{at}", level="tensor")
    assert told["state"] == "done" and told["now"]["seq"] <= at
    assert rows_of(told) == lines(KILLED, at) != []
    assert told["table"]["total"] == sum(size for _, size in lines(KILLED, at))
    again = Reader(ended, "a").read(f"time:{told['now']['time']}", level="tensor")
    assert again["now"]["time"] <= told["now"]["time"] and rows_of(again) == lines(KILLED, again["now"]["seq"])


def test_details_are_those_of_the_views(ended):  # noqa: F811
    last = harness.analyze_json("report", "--all", KILLED, check=False)["last_event"]
    reader = Reader(ended, "b")
    page = reader.read(f"event:{last}", want="account")["page"]
    text = "\n".join(line for _, line in page["lines"])
    told = harness.analyze("ledger", "--at", str(last), KILLED, check=False).stdout
    rows = [line.rstrip() for line in told.splitlines() if "iB" in line]
    assert len(rows) > 2 and all(row[:40] in text for row in rows[1:]), (rows, text)
    table = reader.read(f"event:{last // 2}", level="tensor")["table"]
    first = table["rows"][0]
    page = reader.read(f"event:{last // 2}", level="tensor", want="row:" + first["key"])["page"]
    assert first["name"].split(":")[0].rsplit("/")[-1] in page["title"] + "\n".join(line for _, line in page["lines"])
    refused = reader.read(f"event:{last // 2}", level="tensor", want="row:" + "0" * 16)
    assert refused == {"state": "refused", "why": "this row has no live memory at this event"}


def test_a_reader_that_left_is_not_waited_for(tmp_path):
    """The first one asks once and never again. (The queue of readers has its tests in analyzer/live/src/serve/moments.rs.)"""
    report = tmp_path / "long.bin"
    harness.run([harness.EXAMPLES / "long_run", "record", report, "300000", "full", "10000"])
    with Served(report) as served:
        before = served.resident()
        assert Reader(served, "a").ask("event:290000")["state"] == "reading"
        told = Reader(served, "b").read("event:2000")
        assert told["state"] == "done" and told["now"]["seq"] <= 2000
        assert rows_of(told) == lines(report, 2000)
        assert served.resident() < before + 65_536, "KiB"


def test_the_page_goes_back_in_time_and_to_now_again(program, windows):  # noqa: F811
    with Served(program.report) as served:
        window = windows(served.url)
        then = program.allocate(64) << 20
        window.wait(f"gpumem.shown.table.total === {then}")
        middle = window.tell("gpumem.shown.now.time")
        later = program.allocate(8) << 20
        window.wait(f"gpumem.shown.table.total === {later}")
        window.tell(f"(() => {{ const e = document.getElementById('time'); e.value = {middle}; e.dispatchEvent(new Event('change')); }})()")
        window.wait("document.getElementById('shown').textContent.startsWith('at ')")
        seq = window.tell("gpumem.shown.now.seq")
        assert sorted(window.rows()) == lines(program.report, seq, "driver")
        assert sum(size for _, size in window.rows()) == then
        assert "memory from CUDA then, " in window.text("sum") and window.text("devices-head") == "Devices then"
        newest = program.allocate(1) << 20
        window.wait(f"gpumem.newest.table.total === {newest}")
        assert window.tell("gpumem.shown.table.total") == then, "what is shown stays"
        window.choose("by", "category")
        window.wait("document.getElementById('sum').textContent.startsWith('Categories: memory from CUDA then')")
        window.tell("document.getElementById('account').click()")
        window.wait("document.getElementById('text').textContent.includes('iB')")
        columns = "(() => { const r = document.createRange(), t = document.querySelector('#text span').firstChild; return [0, 1, 2].map(n => {" \
            " r.setStart(t, n); r.setEnd(t, n + 1); return Math.round(r.getBoundingClientRect().width * 10); }); })()"
        assert len(set(window.tell(columns))) == 1, "columns of a text align"
        window.tell("document.querySelector('#table button.row')?.click()")
        window.tell("document.getElementById('back').click()")
        window.wait(f"gpumem.shown.table.total === {newest}")
        assert window.text("shown") == "now" and window.text("devices-head") == "Devices now" and window.errors() == []
        window.choose("by", "line")
        window.wait("document.querySelectorAll('#table button.row').length > 0 && gpumem.shown.table.by === 'line'")
        window.tell("document.querySelector('#table button.row').click()")
        window.wait("document.getElementById('text').textContent.includes('allocate')")
        window.tell("document.getElementById('close-text').click()")
        window.tell("document.getElementById('peak').click()")
        window.wait("document.getElementById('shown').textContent.startsWith('at the peak')")
        assert window.tell("gpumem.shown.table.total") == newest
        assert window.errors() == []


def test_a_failure_is_shown_with_its_cause(program, windows):  # noqa: F811
    with Served(program.report) as served:
        window = windows(served.url)
        held = program.allocate(16) << 20
        program.process.stdin.write(f"{1 << 20}\n")
        program.process.stdin.close()
        program.process.wait()
        window.wait("document.querySelectorAll('#failures button').length === 2")
        window.tell("document.querySelectorAll('#failures button')[1].click()")
        window.wait("document.getElementById('text').textContent.includes('cause  ')")
        told = harness.analyze("oom", program.report, check=False).stdout
        cause = told[told.index("cause  ") :].splitlines()[0]
        assert cause[:60] in window.text("text")
        window.tell("document.querySelectorAll('#failures button')[0].click()")
        window.wait("document.getElementById('shown').textContent.startsWith('at the failure')")
        assert window.tell("gpumem.shown.table.total") == held and window.errors() == []


@pytest.fixture
def folder(tmp_path):
    """Two captures, and a file that is not one."""
    for name in ("torch-kill", "torch-return"):
        shutil.copy(FIXTURES / f"{name}.bin", tmp_path)
    (tmp_path / "secret.txt").write_text("root:")
    return tmp_path


def test_a_folder_has_a_row_for_each_capture_and_each_its_page(folder, windows):  # noqa: F811
    with Served(folder) as served:
        until(lambda: all(row["now"] for row in served.ask_json("/ranks")["rows"]), "figures of each capture")
        ranks = served.ask_json("/ranks")["rows"]
        assert sorted(row["name"] for row in ranks) == ["torch-kill.bin", "torch-return.bin"]
        for row in ranks:
            summary = harness.analyze_json("report", "--all", folder / row["name"], check=False)
            assert row["now"]["pid"] == summary["process"]["pid"]
            told = Reader(served, "x", f"/{row['number']}/").read("event:2000", level="tensor")
            assert rows_of(told) == lines(folder / row["name"], 2000)
        window = windows(served.url, "#ranks")
        window.wait("document.querySelectorAll('#ranks tbody tr').length === 2")
        window.visit(window.tell("document.querySelector('#ranks a').href"))
        window.wait("document.querySelectorAll('#table tbody tr').length > 0")
        window.visit(window.tell("document.querySelector('#all a').href"), "#ranks")
        window.wait("document.querySelectorAll('#ranks tbody tr').length === 2")
        assert window.errors() == []


def test_a_capture_is_found_by_its_number_alone(folder):
    with Served(folder) as served:
        assert served.ask("/1/")[0] == 200, "before its table was asked for"
        for path, status in (
            ("/2/", 404), ("/00/", 404), ("/-1/", 404), ("/1", 404), ("/1/x", 404), ("/torch-kill.bin", 404), ("/secret.txt", 404),
            ("/1/../0/", 400), ("/%2e%2e/", 400), ("/99999999999999999999/", 404), ("/1/moment?at=event:1", 400),
            ("/1/moment?client=a&at=event:x", 400), ("/1/moment?client=../a&at=event:1", 400),
            ("/1/moment?client=a&at=event:1&want=file", 400), ("/1/moment?client=a&at=event:1&want=row:/etc", 400),
        ):
            assert served.ask(path)[0] == status, path
        for path in ("/", "/ranks", "/0/", "/0/events", "/0/moment?client=a&at=event:1"):
            assert served.ask(path, token=False)[0] == 403
            assert served.ask(path, host="gpu.example")[0] == 421


def test_ranks_that_run_appear_and_those_that_differ_are_marked(tmp_path, python_env, windows):  # noqa: F811
    python = python_env("py312")
    with Served(tmp_path) as served:
        assert served.ask_json("/ranks")["rows"] == []
        ranks = [Program(tmp_path, python, RANK=str(n), WORLD_SIZE="3", GPUMEM_OUTPUT=f"rank{n}.bin") for n in range(3)]
        try:
            for rank, mib in zip(ranks, (16, 16, 80)):
                rank.allocate(mib)
            window = windows(served.url, "#ranks")
            window.wait("document.getElementById('state').textContent.endsWith('3 running · 1 differ')")
            marked = window.tell("[...document.querySelectorAll('#ranks tbody a')].map(a => a.textContent)")
            assert marked == ["rank 0", "rank 1", "! rank 2"]
            assert "64.0 MiB more than the median of 3 peers" in window.tell("document.getElementById('ranks').textContent")
            assert window.errors() == []
        finally:
            for rank in ranks:
                rank.__exit__()
