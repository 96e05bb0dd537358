"""`gpumem-analyze mcp`: through the official Python client, in both of the protocol's life-cycles. GPUMEM_BLESS=1
rewrites the transcripts."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import harness
import pytest
from mcp_session import MOST, SERVER, Refused, Session, transcript

FIXTURES = harness.ROOT / "tests" / "fixtures"
CAPTURES = FIXTURES / "captures" / "v1"
# The life-cycle with `initialize`, and the one without.
MODES = {"legacy": "2025-11-25", "2026-07-28": "2026-07-28"}
TOOLS = ["captures", "summary", "why", "lines", "tree", "diff", "leaks", "ledger", "hints", "source"]
MIB = 1 << 20
# The client passes no variable on by itself.
PACKAGE = ["env", f"PYTHONPATH={harness.ROOT / 'python'}", f"GPUMEM_BUILT={harness.BUILT}"]

# Keeps a tensor of each step, and dies of it.
FAILING = """\
import torch

import winds_up  # noqa: F401

kept = []


def step(size):
    out = torch.zeros(size, dtype=torch.uint8, device="cuda")
    kept.append(out.clone())


for _ in range(1000):
    step(64 << 20)
"""
KEEPS = 10


@pytest.fixture(scope="module")
def client(python_env):
    return python_env("mcp")


@pytest.fixture
def root(tmp_path):
    """A folder of captures, one of them below another folder, beside one that must not be read."""
    root = tmp_path / "root"
    (root / "runs").mkdir(parents=True)
    for name in ("torch-return", "torch-kill", "cut-off"):
        shutil.copy(CAPTURES / f"{name}.bin", root / "runs")
    shutil.copy(CAPTURES / "clean.bin", root)
    shutil.copy(CAPTURES / "clean.bin", tmp_path / "outside.bin")
    (root / "link.bin").symlink_to(tmp_path / "outside.bin")
    return root


def contents(folder):
    """Of all files: bytes, and when they were changed."""
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


def refusal(session, tool, **arguments):
    with pytest.raises(Refused) as refused:
        session.ask(tool, **arguments)
    return str(refused.value)


@pytest.mark.parametrize("mode", MODES)
def test_a_session_is_as_it_was(client, root, tmp_path, mode):
    before, log = contents(root), tmp_path / "wire"
    with Session(client, mode, [root], log=log) as session:
        assert session.about["protocol"] == MODES[mode]
        session.ask("captures")
        session.ask("summary", capture="clean.bin")
        session.ask("why", capture="clean.bin")
        session.ask("ledger", capture="clean.bin", at="oom")
        first = session.ask("lines", capture="runs/torch-return.bin")
        session.ask("lines", capture="runs/torch-return.bin", cursor=first["next"])
        session.ask("lines", capture="runs/torch-return.bin", by="category", at="step 1")
        session.ask("leaks", capture="runs/torch-return.bin", steps=1)
        session.ask("diff", before="runs/torch-return.bin", after="runs/torch-kill.bin", at="step 1", to="peak")
        session.ask("hints", capture="runs/torch-kill.bin")
        refusal(session, "source", capture="runs/torch-return.bin", file="train.py", line=57)
        refusal(session, "lines", capture="runs/torch-retrun.bin")
        refusal(session, "lines", capture="../outside.bin")
    assert contents(root) == before
    found, golden = transcript(log, root), FIXTURES / "mcp" / f"{mode}.txt"
    if os.environ.get("GPUMEM_BLESS") == "1":
        golden.write_text(found)
    assert found == golden.read_text(), "the session differs: run with GPUMEM_BLESS=1"


@pytest.fixture(scope="module")
def failed(python_env, tmp_path_factory):
    """The folder of a run that ran out of memory."""
    folder = tmp_path_factory.mktemp("failed")
    program = folder / "failing.py"
    program.write_text(FAILING)
    ran = harness.simulate(
        [python_env("torch215"), program], memory="1536MiB", preload=True, cwd=folder, check=False,
        env={"PYTHONPATH": str(harness.WORKLOADS)},
    )  # fmt: skip
    assert ran.returncode == 1 and "OutOfMemoryError" in ran.stderr, harness.described(ran)
    return folder


@pytest.mark.parametrize("mode", MODES)
def test_from_a_failed_run_to_the_line(client, failed, mode):
    """Through the protocol alone."""
    with Session(client, mode, [failed]) as session:
        (newest,) = session.ask("captures")["rows"]
        summary = session.ask("summary", capture=newest["capture"])
        assert summary["account"]["exact"] and summary["failures_for_want_of_memory"] == 1
        (ask,) = [ask for ask in summary["ask_next"] if ask["tool"] == "why"]
        why = session.ask("why", **ask["arguments"])
        assert why["failure"]["requested_bytes"] == 64 * MIB
        assert why["cause"]["kind"] == "kept_tensors", why["cause"]
        (ask,) = [ask for ask in why["ask_next"] if ask["tool"] == "source"]
        source = session.ask("source", **ask["arguments"])
        (line,) = [row for row in source["rows"] if row.get("asked")]
        assert (line["line"], line["text"].strip()) == (KEEPS, "kept.append(out.clone())")
        assert "may_differ" not in source
        kept = [row for row in why["rows"] if (row.get("line"), row["level"]) == (KEEPS, "tensor")]
        assert line["bytes"] == sum(row["bytes"] for row in kept) > 500 * MIB
        # The same from each side: the ledger's figure of tensors is the sum of their lines.
        at = f"event {why['failure']['event']}"
        lines = session.all("lines", capture=newest["capture"], at=at)
        (tensors,) = [row for row in session.ask("ledger", capture=newest["capture"], at="oom")["rows"] if row["kind"] == "tensors"]
        assert sum(row["bytes"] for row in lines["rows"]) == lines["together_bytes"] == tensors["bytes"]


@pytest.mark.parametrize("mode", [*MODES, "auto"])
def test_tools_can_be_understood(client, root, mode):
    with Session(client, mode, [root]) as session:
        tools = session.about["tools"]
    assert [tool["name"] for tool in tools] == TOOLS
    # A client for the new version requests only the tools; one that does not know the version begins with
    # `server/discover`.
    if mode == "2026-07-28":
        assert session.about["instructions"] is None
    else:
        assert "Start with captures" in session.about["instructions"]
    assert session.about["protocol"] == MODES.get(mode, "2026-07-28")
    for tool in tools:
        assert tool["annotations"]["readOnlyHint"] and len(tool["description"]) > 60
        properties = tool["inputSchema"]["properties"]
        assert "cursor" in properties
        assert all(of.get("description") for of in properties.values()), tool
    assert session.stderr == ""


def one_name(of):
    """JSON with one name for each file, the shortest."""
    if isinstance(of, list):
        return [one_name(each) for each in of]
    if not isinstance(of, dict):
        return of
    if of.get("file_relative") is not None:
        of = {**of, "file": of["file_relative"]}
    return {key: one_name(value) for key, value in of.items() if key not in ("file_relative", "before_file", "after_file")}


def test_figures_are_those_of_the_views(client, root):
    capture = root / "runs" / "torch-return.bin"
    copy = root / "copy.bin"
    shutil.copy(capture, copy)

    def same(row, theirs):
        """Whether ours is theirs, without nulls, with sizes, and with the shortest name of the file."""
        theirs = one_name(theirs)
        theirs = {key: value for key, value in theirs.items() if value is not None}
        return {key: row[key] for key in row if key in theirs} == theirs

    with Session(client, "legacy", [root]) as session:
        for arguments, words in [
            ({}, ()),
            ({"at": "end", "level": "driver"}, ("--at", "end", "--level", "driver")),
            ({"by": "module"}, ("--by", "module")),
            ({"by": "category", "at": "step 1"}, ("--by", "category", "--at", "step=1")),
            ({"by": "caller"}, ("--by", "caller")),
            ({"by": "phase", "of": "allocated"}, ("--by", "phase", "--of", "allocated")),
            ({"of": "kept"}, ("--of", "kept")),
            ({"by": "function", "of": "temporary"}, ("--by", "function", "--of", "temporary")),
            ({"function": "Block"}, ("--function", "Block")),
        ]:
            theirs = harness.analyze_json("lines", *words, copy)
            ours = session.all("lines", capture="runs/torch-return.bin", **arguments)
            assert len(ours["rows"]) == len(theirs)
            assert theirs or arguments == {"of": "kept"}
            assert ("the end of the last step or round" in ours["at"]) == (arguments == {"of": "kept"})
            assert all(map(same, ours["rows"], theirs)), arguments
            assert ours["together_bytes"] == sum(row["bytes"] for row in theirs)
        theirs = harness.analyze_json("leaks", "--steps", "1", copy)
        ours = session.all("leaks", capture="runs/torch-return.bin", steps=1)
        assert ours["bytes"] == theirs["bytes"] and all(map(same, ours["rows"], theirs["rows"]))
        (theirs,) = harness.analyze_json("ledger", copy)
        card, *parts = session.all("ledger", capture="runs/torch-return.bin")["rows"]
        assert card["bytes"] == theirs["bytes"] == sum(row["bytes"] for row in parts)
        assert all(map(same, parts, theirs["rows"]))
        theirs = harness.analyze_json("report", "--hints", copy)
        ours = session.all("hints", capture="runs/torch-return.bin")
        assert len(ours["rows"]) == len(theirs) and all(map(same, ours["rows"], theirs))
        theirs = harness.analyze_json("diff", copy, root / "runs" / "torch-kill.bin")
        ours = session.all("diff", before="copy.bin", after="runs/torch-kill.bin")
        changed = [row for row in theirs["rows"] if row["change_bytes"] or row["before_blocks"] != row["after_blocks"]]
        assert ours["change_bytes"] == theirs["change_bytes"] and all(map(same, ours["rows"], changed))
        assert len(ours["rows"]) + ours["alike_rows"] == len(theirs["rows"])
        tree = session.all("tree", capture="copy.bin", least_percent=0)
        assert sum(row["bytes"] for row in tree["rows"] if row["depth"] == 0) == tree["bytes"]
        summary = harness.analyze_json("report", "--all", copy)
        (tensors,) = [row for row in session.all("summary", capture="copy.bin")["rows"] if row["what"] == "tensors"]
        assert tensors["peak_bytes"] == summary["devices"][0]["tensor"]["peak_bytes"] == tree["bytes"]


def test_what_is_missing_is_said_in_each_answer(client, root):
    with Session(client, "2026-07-28", [root]) as session:
        for tool in ("summary", "lines", "tree", "leaks", "ledger", "hints", "why"):
            account = session.ask(tool, capture="runs/cut-off.bin")["account"]
            assert not account["exact"] and "40 events" in account["partial"][0], (tool, account)
            assert session.ask(tool, capture="runs/torch-return.bin")["account"]["exact"]


@pytest.fixture
def ring_folder():
    """A folder in memory for rings: those in the usual place any recorder that starts may take over into their captures."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


# Requests more than the card has, and is killed.
KILLED = """\
import os
import signal

from sim_cuda import OUT_OF_MEMORY, byref, c_uint64, code, must, out

must("cuInit", 0)
must("cuCtxSetCurrent", out("cuDevicePrimaryCtxRetain", 0))
assert code("cuMemAlloc_v2", byref(c_uint64()), 600 << 20) == OUT_OF_MEMORY
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_is_read_where_it_is(client, ring_folder, tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    killed = harness.simulate(
        [sys.executable, "-c", KILLED], memory="1GiB", preload=True, cwd=root, check=False,
        env={"GPUMEM_RING": str(ring_folder), "PYTHONPATH": str(harness.WORKLOADS)},
    )  # fmt: skip
    assert killed.returncode in (-9, 128 + 9), harness.described(killed)
    assert list(ring_folder.iterdir())
    before, capture = contents(root), root / "report.bin"
    with Session(client, "legacy", [root], server=[*SERVER, "--python", sys.executable]) as session:
        assert session.ask("captures")["rows"][0]["ended"] == "killed"
        why = session.ask("why", capture="report.bin")
        assert why["failure"]["requested_bytes"] == 600 * MIB and why["account"]["ended"] == "killed"
        assert "gpumem-analyze check" in refusal(session, "whatif", capture="report.bin")
        assert contents(root) == before
        # The other commands take it over, and that is another capture to the server.
        theirs = harness.analyze_json("oom", capture)
        assert contents(root) != before
        assert theirs["failures"][0]["event"] == why["failure"]["event"]
        assert session.ask("why", capture="report.bin")["failure"] == why["failure"]


def test_any_capture_has_an_answer_or_one_line(client, tmp_path):
    """Whatever is damaged in it."""
    root = tmp_path / "root"
    shutil.copytree(CAPTURES, root)
    questions = [
        ("summary", {}), ("why", {}), ("lines", {}), ("lines", {"at": "end", "by": "module", "level": "host"}), ("lines", {"step": 1}),
        ("tree", {"native": True}), ("leaks", {}), ("ledger", {"by": "line"}), ("ledger", {"at": "oom"}), ("hints", {}),
    ]  # fmt: skip
    answered = 0
    with Session(client, "2026-07-28", [root]) as session:
        for capture in sorted(path.name for path in root.glob("*.bin")):
            for tool, arguments in questions:
                try:
                    answer = session.all(tool, capture=capture, **arguments)
                except Refused as refused:
                    assert "an internal error of gpumem" not in str(refused), (capture, tool)
                    continue
                answered += 1
                exact = harness.analyze("check", root / capture, check=False).returncode == 0 if tool == "summary" else True
                assert exact or not answer["account"]["exact"], capture
    assert session.stderr == "" and answered > 120


def test_nothing_outside_the_folders_is_read(client, root, tmp_path):
    outside = "outside the folders of this server"
    with Session(client, "legacy", [root]) as session:
        names = [row["capture"] for row in session.ask("captures")["rows"]]
        assert sorted(names) == ["clean.bin", "runs/cut-off.bin", "runs/torch-kill.bin", "runs/torch-return.bin"]
        for name in ("../outside.bin", str(tmp_path / "outside.bin"), "link.bin", "runs/../../outside.bin", "/etc/passwd", "/absent"):
            assert outside in refusal(session, "lines", capture=name), name
            assert outside in refusal(session, "diff", before="clean.bin", after=name), name
        assert "call captures for a list" in refusal(session, "lines", capture="absent.bin")
        # The capture names the file, and it lies elsewhere.
        assert outside in refusal(session, "source", capture="runs/torch-return.bin", file="train.py", line=1)
        assert "does not name the file" in refusal(session, "source", capture="runs/torch-return.bin", file="/etc/passwd", line=1)


def test_a_cursor_is_of_one_question_and_one_capture(client, root):
    capture = root / "runs" / "torch-return.bin"
    with Session(client, "2026-07-28", [root]) as session:
        first = session.ask("lines", capture="runs/torch-return.bin")
        assert first["more"] > 0
        other = "belongs to another query, or a capture changed"
        assert other in refusal(session, "lines", capture="runs/torch-kill.bin", cursor=first["next"])
        assert other in refusal(session, "lines", capture="runs/torch-return.bin", at="end", cursor=first["next"])
        assert "is not a cursor" in refusal(session, "lines", capture="runs/torch-return.bin", cursor="2")
        os.utime(capture, ns=(1, 1))
        assert other in refusal(session, "lines", capture="runs/torch-return.bin", cursor=first["next"])


def test_errors_say_what_to_ask_next(client, root):
    (root / "text.bin").write_text("no capture")
    with Session(client, "2026-07-28", [root]) as session:
        said = refusal(session, "lines", capture="clean.bin", at="step 99")
        assert "step 99 did not end" in said and "name one of those" in said
        assert "expected peak, end, oom" in refusal(session, "lines", capture="clean.bin", at="later")
        assert "at 1.5: expected the number of an event, or text such as peak" in refusal(session, "lines", capture="clean.bin", at=1.5)
        assert "by category goes with of live and of allocated only" in refusal(session, "lines", capture="clean.bin", by="category", of="kept")
        assert "step begins with 1" in refusal(session, "lines", capture="clean.bin", step=0)
        assert "from 0 to 100" in refusal(session, "tree", capture="clean.bin", least_percent=101)
        assert "unknown field `levl`, expected one of `capture`" in refusal(session, "lines", capture="clean.bin", levl="driver")
        assert "call captures" in refusal(session, "summary", capture="text.bin")
        assert "use at peak for the point with most memory" in refusal(session, "lines", capture="runs/torch-return.bin", at="oom")
        assert "use one of 1" in refusal(session, "why", capture="clean.bin", failure=7)
        assert "the capture has no GPU 9" in refusal(session, "ledger", capture="clean.bin", device=9)
        assert session.ask("why", capture="runs/torch-return.bin")["failures"] == 0
        assert "there is no tool absent: captures, summary" in session.result("absent")["protocol_error"]


def test_the_protocol_alone_is_on_standard_output(root):
    """For any input, also input outside the protocol."""
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "by hand", "version": "1"}}}  # fmt: skip
    called = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "lines", "arguments": {"capture": "clean.bin"}}}
    lines = [json.dumps(request), json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}), "no JSON", json.dumps(called)]
    server = [str(harness.ANALYZER), "mcp", "--root", str(root)]
    with subprocess.Popen(server, env=harness.clean_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        process.stdin.write("".join(line + "\n" for line in lines))
        process.stdin.flush()
        answers = {}
        while 2 not in answers:
            answer = json.loads(process.stdout.readline())
            answers[answer.get("id")] = answer
        process.stdin.close()
        assert process.stdout.read() == ""
    assert process.returncode == 0
    # An old client gets its own version.
    assert answers[1]["result"]["protocolVersion"] == "2024-11-05"
    assert len(answers[2]["result"]["content"][0]["text"]) <= MOST

    silent = harness.run(server, check=False)
    assert (silent.returncode, silent.stdout) == (1, "") and len(silent.stderr.splitlines()) == 1, harness.described(silent)
    absent = harness.analyze("mcp", "--root", root / "absent", check=False)
    assert absent.returncode == 1 and "name a folder" in absent.stderr


def test_hostile_input_changes_nothing(root):
    """Garbage, requests without an end, deep and large ones, and 200 at once: what can be answered is answered."""

    def request(number, method="tools/list", **params):
        return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()

    initialize = request(0, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "x", "version": "1"})
    hostile = [
        b"", b"\x00\xff\xfe\x1b[2J", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"[]", b"null", b'"text"', b"{}", b"[" * 100_000,
        b'{"a":' * 100_000, b'{"jsonrpc":"2.0","id":1e400,"method":"ping"}', b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}', request(1, "no/such"), request(2, "tools/call"), request(3, "tools/call", name=7),
        request(4, "tools/call", name="lines", arguments=[1]), request(5, "tools/call", name="x" * 1_000_000, arguments={}),
        request(6, "tools/call", name="lines", arguments={"capture": "\u0000"}),
        request(7, "tools/call", name="lines", arguments={"capture": "../outside.bin"}),
        request(8, "tools/call", name="lines", arguments={"capture": "/proc/self/environ"}),
        request(9, "tools/call", name="lines", arguments={"capture": "clean.bin", "at": "\x1b[2J" * 1000}),
        request(10, "tools/call", name="source", arguments={"capture": "clean.bin", "file": "/etc/passwd", "line": 1}),
        request(11, "resources/read", uri="file:///etc/passwd"),
        json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 10**30}}).encode(),
        b'{"jsonrpc":"2.0","id":12,"method":"ping","params":{"text":"' + b"y" * (8 << 20) + b'"}}',
    ]  # fmt: skip
    server = [str(harness.ANALYZER), "mcp", "--root", str(root)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(server, env=harness.clean_environment(), **pipes) as process:
        process.stdin.write(initialize + b"\n" + json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode() + b"\n")
        answers = {}

        def until(wanted):
            while not wanted <= answers.keys():
                line = process.stdout.readline()
                assert line, (wanted - answers.keys(), process.stderr.read())
                answer = json.loads(line)
                answers[answer.get("id")] = line

        for number, line in enumerate(hostile):
            process.stdin.write(line + b"\n" + request(1000 + number) + b"\n")
            process.stdin.flush()
            until({1000 + number})
        process.stdin.write(b"".join(request(2000 + number, "ping") + b"\n" for number in range(200)))
        process.stdin.flush()
        until({2000 + number for number in range(200)})
        status = (Path("/proc") / str(process.pid) / "status").read_text()
        # A request that does not end.
        process.stdin.write(b'{"jsonrpc":"2.0","id":3000,"method":"ping","params":{"text":"')
        process.stdin.close()
        rest = process.stdout.read()
    assert process.returncode == 0
    texts = b"".join(line for line in answers.values() if line) + rest
    assert b"root:" not in texts and b"PATH=" not in texts and b"\x1b" not in texts
    assert json.loads(answers[2000])["result"] == {}
    resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    assert resident < 200 << 10, f"{resident} KiB"


def test_replays_are_offered_with_the_package(client, python_env, root):
    """By `gpumem mcp`, whose Python has it."""
    before = contents(root)
    with Session(client, "2026-07-28", [root], server=[*PACKAGE, python_env("torch215"), "-m", "gpumem", "mcp"]) as session:
        assert [tool["name"] for tool in session.about["tools"]] == [*TOOLS, "whatif"]
        answer = session.all("whatif", capture="runs/torch-return.bin", settings=["expandable_segments:True"])
        recorded, *replays = answer["rows"]
        assert recorded["what"] == "recorded" and recorded["reserved_peak_bytes"] > 0
        assert "expandable_segments:True" in [row["settings"] for row in replays]
        said = refusal(session, "whatif", capture="runs/torch-return.bin", card="no size")
        assert said.startswith("whatif: "), said
    assert contents(root) == before


def test_programs_are_run_only_where_that_is_allowed(client, python_env, root, tmp_path):
    (root / "fits.py").write_text('import torch\n\nprint(torch.zeros(1 << 30, dtype=torch.uint8, device="cuda").shape)\n')
    (tmp_path / "outside.py").write_text("raise SystemExit(1)\n")
    server = [*PACKAGE, python_env("torch215"), "-m", "gpumem", "mcp", "--allow-plan"]
    with Session(client, "legacy", [root], server=server) as session:
        (tool,) = [tool for tool in session.about["tools"] if tool["name"] == "plan"]
        assert tool["annotations"]["readOnlyHint"] is False and tool["annotations"]["destructiveHint"] is True
        (case,) = session.all("plan", card="24GiB", program=["fits.py"])["rows"]
        assert case["verdict"] == "fits" and case["tensor_peak_bytes"] == [1 << 30, 1 << 30]
        assert "outside the folders" in refusal(session, "plan", card="24GiB", program=["../outside.py"])
        assert refusal(session, "plan", card="no card", program=["fits.py"]).startswith("plan: ")
    with Session(client, "legacy", [root]) as session:
        assert "there is no tool plan" in session.result("plan", card="24GiB", program=["fits.py"])["protocol_error"]


def test_a_question_that_is_cancelled_ends_its_programs(python_env, root, tmp_path):
    """The client continues with the next query, and no program of the plan still runs. The test sends the messages
    itself, because the client does not show when its cancellation has arrived."""
    (root / "stays.py").write_text("import signal\n\nlives = open('lives', 'w', buffering=1)\nprint('here', file=lives)\nsignal.pause()\n")
    os.mkfifo(root / "lives")
    server = [python_env("torch215"), "-m", "gpumem", "mcp", "--allow-plan", "--root", root]
    environment = {**harness.clean_environment(), "PYTHONPATH": str(harness.ROOT / "python")}
    process = subprocess.Popen(server, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def send(**message):
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        process.stdin.flush()

    def call(number, tool, **arguments):
        send(id=number, method="tools/call", params={"name": tool, "arguments": arguments})

    try:
        client = {"name": "test", "version": "1"}
        send(id=0, method="initialize", params={"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
        assert json.loads(process.stdout.readline())["id"] == 0
        send(method="notifications/initialized")
        call(1, "plan", card="24GiB", program=["stays.py"])
        with open(root / "lives") as lives:
            assert lives.readline() == "here\n"
            send(method="notifications/cancelled", params={"requestId": 1, "reason": "no longer wanted"})
            # It ends once each program that has it open has.
            assert {*lives.read().split()} <= {"here"}
        call(2, "summary", capture="clean.bin")
        answers = iter(process.stdout.readline, "")
        answer = next(found for found in map(json.loads, answers) if found["id"] == 2)
        assert not answer["result"].get("isError")
    finally:
        process.stdin.close()
        assert process.wait(timeout=300) == 0
