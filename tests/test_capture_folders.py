"""The captures that commands find in folders: docs/folders.md. What breaks these tests: a command with a search that
differs, a link that is followed, a ring that counts as a capture, and a file that is left out without a line."""

import json
import subprocess

import duckdb
import fleet
import harness
import pytest
from exporter import Exporter
from waiting import until

WHOLE = fleet.TRAINING.read_bytes()
DEEP = "/".join(f"d{depth}" for depth in range(1, 17))
# What is in the folder, and what a search makes of it.
FILES = [
    ("report.bin", WHOLE, "capture"),
    ("killed.bin", fleet.KILLED.read_bytes(), "capture"),
    ("without-an-end", WHOLE, "capture"),
    ("run/other.name", WHOLE, "capture"),
    (f"{DEEP}/deep.bin", WHOLE, "capture"),
    (f"{DEEP}/d17/deeper.bin", WHOLE, "nothing"),
    (".hidden.bin", WHOLE, "nothing"),
    (".venv/report.bin", WHOLE, "nothing"),
    ("gpumem-ring-0123", b"\x89GPURNG\n" + bytes(2040) + WHOLE, "nothing"),
    ("weights.bin", bytes(10_000), "nothing"),
    ("notes.txt", b"no capture\n", "nothing"),
    ("empty", b"", "nothing"),
    ("empty.bin", b"", "unreadable"),
    ("cut.bin", WHOLE[:700], "unreadable"),
    ("cut", WHOLE[:700], "unreadable"),
]
# Outside the folder, with links to it.
LINKS = ["link.bin", "up"]


def wanted(kind):
    return {name for name, _, of in FILES if of == kind}


@pytest.fixture
def made(tmp_path):
    """Folders with all files, and with those that can be read."""

    def make(name, kinds):
        folder = tmp_path / name
        for number, (file, contents, kind) in enumerate(FILES):
            if kind not in kinds:
                continue
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(contents)
            if kind == "capture":
                # A dataset has one of several copies.
                fleet.capture(path, 1000 + number, of=path)
        (tmp_path / "outside").mkdir(exist_ok=True)
        (tmp_path / "outside" / "capture.bin").write_bytes(WHOLE)
        (folder / "link.bin").symlink_to(tmp_path / "outside" / "capture.bin")
        (folder / "up").symlink_to(tmp_path)
        return folder

    return make


def below(folder, files):
    return {str(file).partition(f"{folder}/")[2] or str(file) for file in files}


def analyzer(*words, status):
    done = harness.run([harness.ANALYZER, *words], check=False)
    assert done.returncode == status, harness.described(done)
    return done


def by_ranks(folder, _):
    job = json.loads(analyzer("ranks", "--format", "json", folder, status=3).stdout)["data"]
    return {row["file"] for row in job["ranks"]}, job["unreadable"]


def by_fleet(folder, beside):
    dataset = beside / "dataset"
    done = analyzer("fleet", "ingest", "--format", "json", folder, dataset, status=3)
    summary = json.loads(done.stdout)["data"]
    rows = analyzer("fleet", "ingest", folder, dataset, status=3).stdout
    # A killed program's capture may still grow for a while, if it is of another machine.
    assert f"{summary['taken']} already in the dataset" in rows
    files = duckdb.sql(f"select file from read_parquet('{dataset}/run=*/table=ranks/node=*/*.parquet')").fetchall()
    return {*(file for (file,) in files), *summary["running"]}, summary["unreadable"]


def by_mcp(folder, _):
    asked = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "by hand", "version": "1"}}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "captures", "arguments": {}}},
    ]  # fmt: skip
    server = [str(harness.ANALYZER), "mcp", "--root", str(folder)]
    with subprocess.Popen(server, env=harness.clean_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        process.stdin.write("".join(json.dumps(line) + "\n" for line in asked))
        process.stdin.flush()
        answers = {answer["id"]: answer for answer in (json.loads(process.stdout.readline()) for _ in range(2))}
        process.stdin.close()
    answer = json.loads(answers[2]["result"]["content"][0]["text"])
    return {row["capture"] for row in answer["rows"]}, answer["unreadable"]


def by_metrics(folder, _):
    def states():
        return {labels["capture"] for of, labels, _ in exporter.samples() if of == "gpumem_capture_state"}

    with Exporter(folder, options=["--keep", "3600"]) as exporter:
        until(lambda: len(states()) >= len(wanted("capture")), "all captures")
        assert exporter.value("gpumem_exporter_captures", state="unreadable") == len(wanted("unreadable"))
        found = states()
        exporter.process.kill()
        return found, exporter.process.stderr.read().splitlines()


@pytest.mark.parametrize("command", [by_ranks, by_fleet, by_mcp, by_metrics])
def test_commands_find_the_same(command, made, tmp_path):
    folder = made("all", {"capture", "nothing", "unreadable"})
    captures, unreadable = command(folder, tmp_path)
    assert below(folder, captures) == wanted("capture")
    named = {name for name in wanted("unreadable") if any(f"/{name}: " in line for line in unreadable)}
    assert named == wanted("unreadable") and len(unreadable) == len(named)


def test_ci_compares_them_and_leaves_none_out(made):
    folder = made("readable", {"capture", "nothing"})
    done = json.loads(harness.run([harness.ANALYZER, "ci", "--head", folder, "--format", "json"], check=False).stdout)["data"]
    assert {of["name"] for of in done["workloads"]} == {name.removesuffix(".bin") for name in wanted("capture")}
    refused = analyzer("ci", "--head", made("all", {"capture", "unreadable"}), status=1)
    assert "/cut: cut off after 700 bytes" in refused.stderr and refused.stderr.count("\n") == 1


def test_a_command_for_one_capture_names_one(made):
    folder = made("all", {"capture", "nothing", "unreadable"})
    said = analyzer("lines", folder, status=1).stderr
    first = min(folder / name for name in wanted("capture"))
    assert f"name one of its captures, as {first} ({len(wanted('capture'))} captures)" in said


def test_two_captures_of_one_workload_are_told(made, tmp_path):
    folder = made("readable", {"capture"})
    (folder / "report").write_bytes(WHOLE)
    assert "another capture has the same name without .bin" in analyzer("ci", "--head", folder, status=1).stderr
