"""Wrong command lines: the first line shows the correct form, or the fault and its place; exit code 2 for the
command line, 1 for a file.

What breaks these tests: wrong advice, a usage of twenty lines instead of an answer, exit code 0."""

import re
import shlex

import harness
import pytest

SUGGESTED = "gpumem-analyze: `gpumem-analyze {}` is not a valid command line: did you mean `gpumem-analyze {}`?"

# What is typed, and what would have worked.
MEANT = {
    "line report.bin": "lines report.bin",
    "Lines report.bin": "lines report.bin",
    "summery report.bin": "summary report.bin",
    "flame report.bin": "flamegraph report.bin",
    "flamegraf report.bin": "flamegraph report.bin",
    "leak report.bin": "leaks report.bin",
    "hint report.bin": "hints report.bin",
    "fragment report.bin": "fragmentation report.bin",
    "time-line report.bin": "timeline report.bin",
    "temp report.bin": "temporary report.bin",
    "thread report.bin": "threads report.bin",
    "report.bin lines": "lines report.bin",
    "report.bin lines --at end": "lines report.bin --at end",
    "report.bin line": "lines report.bin",
    "report.bin summary --format json": "summary report.bin --format json",
    "lines --json report.bin": "lines --format json report.bin",
    "summary report.bin --json": "summary report.bin --format json",
    "line --json report.bin": "lines --format json report.bin",
    "report.bin leaks --json": "leaks report.bin --format json",
    "--at end report.bin": "lines --at end report.bin",
    "report.bin --at end": "lines report.bin --at end",
    "report.bin --device 0": "lines report.bin --device 0",
    "--level driver report.bin": "lines --level driver report.bin",
    "report.bin --phase backward": "lines report.bin --phase backward",
    "line 'my report.bin'": "lines 'my report.bin'",
}

# What is typed, the first line, and the exit code.
REFUSED = [
    ("line", "no file or command is named line: did you mean `gpumem-analyze lines report.bin`?", 2),
    ("bogus report.bin", "no file or command is named bogus: gpumem-analyze --help lists the commands", 2),
    ("lines --device 5 report.bin", "--device 5: the capture has only GPU 0", 2),
    ("ledger --device 5 report.bin", "--device 5: the capture has only GPU 0", 2),
    ("leaks --device 5 report.bin", "--device 5: the capture has only GPU 0", 2),
    ("sizes --device 5 report.bin", "--device 5: the capture has only GPU 0", 2),
    ("threads --device 5 report.bin", "--device 5: the capture has only GPU 0", 2),
    ("tree --device 5 report.bin", "--device 5: the capture has only GPU 0", 2),
    ("timeline --device 5 --format text report.bin", "--device 5: the capture has only GPU 0", 2),
    ("fragmentation --device 5 report.bin", "--device 5: the capture has only GPU 0", 2),
    ("flamegraph --device 5 report.bin", "--device 5: the capture has only GPU 0", 2),
    ("export csv --device 5 -o - report.bin", "--device 5: the capture has only GPU 0", 2),
    ("lines --device x report.bin", "error: invalid value 'x' for '--device <N>': invalid digit found in string", 2),
    ("lines --at noon report.bin", "error: invalid value 'noon' for '--at <POINT>': expected peak, end, oom, *", 2),
    ("lines --levle driver report.bin", "error: unexpected argument '--levle' found", 2),
    ("lines", "error: the following required arguments were not provided:", 2),
    ("--sysroot / lines report.bin", "put the options of a command after the command", 2),
    ("empty", "empty: a folder, not a capture: it has no captures: name a report.bin", 1),
    ("one", "one: a folder, not a capture: name the capture in it: one/a.bin", 1),
    ("lines several", "several: a folder, not a capture: name one of its captures, as several/a.bin, or compare them: "
     "gpumem-analyze ranks several", 1),
    ("snapshot.pickle", "snapshot.pickle: not a gpumem capture: if it is a PyTorch memory snapshot: "
     "gpumem-analyze import torch-snapshot snapshot.pickle -o snapshot.bin", 1),
    ("trace.json", "trace.json: not a gpumem capture: it is JSON; if *import torch-snapshot trace.json -o trace.bin", 1),
    ("run.nsys-rep", "run.nsys-rep: not a gpumem capture: gpumem does not read files of Nsight Systems: record with *", 1),
    ("run.sqlite", "run.sqlite: not a gpumem capture: it is an SQLite database, such as nsys exports; gpumem does not *", 1),
    ("trace.otf2", "trace.otf2: not a gpumem capture: it is an OTF2 trace, which gpumem does not read: record with *", 1),
    ("report.svg", "report.svg: not a gpumem capture: it is a picture or page of a capture: *", 1),
    ("report.bin.gz", "report.bin.gz: not a gpumem capture: it is compressed: unpack it first *", 1),
    ("nothing.bin", "nothing.bin: No such file or directory (os error 2): record one with *", 1),
    ("man nothing", "gpumem-analyze has no command nothing: see gpumem-analyze --help", 1),
]


@pytest.fixture(scope="module")
def folder(trained, tmp_path_factory):
    folder = tmp_path_factory.mktemp("usage")
    capture = trained("torch215").report.read_bytes()
    for name in ("report.bin", "my report.bin", "one/a.bin", "several/a.bin", "several/b.bin"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(capture)
    (folder / "empty").mkdir()
    for name, head in {
        "snapshot.pickle": b"\x80\x04}q\x00.",
        "trace.json": b'{"traceEvents": []}',
        "run.nsys-rep": b"NSYS" + bytes(60),
        "run.sqlite": b"SQLite format 3\0" + bytes(60),
        "trace.otf2": b"OTF2" + bytes(60),
        "report.svg": b"<?xml version='1.0'?><svg/>",
        "report.bin.gz": b"\x1f\x8b\x08" + bytes(60),
    }.items():
        (folder / name).write_bytes(head)
    return folder


def answered(line, folder):
    done = harness.run([harness.ANALYZER, *shlex.split(line)], cwd=folder, check=False)
    assert done.stdout == "" and "panicked" not in done.stderr
    return done.returncode, done.stderr.splitlines()


@pytest.mark.parametrize("line", MEANT)
def test_what_was_meant_is_said_and_works(line, folder):
    code, said = answered(line, folder)
    assert (code, said) == (2, [SUGGESTED.format(line, MEANT[line])])
    better = re.search(r"did you mean `gpumem-analyze (.*)`\?$", said[0])[1]
    harness.run([harness.ANALYZER, *shlex.split(better)], cwd=folder)


@pytest.mark.parametrize("line, first, code", REFUSED, ids=[line for line, *_ in REFUSED])
def test_what_is_wrong_is_said_first(line, first, code, folder):
    found, said = answered(line, folder)
    expected = first if first.startswith("error: ") else f"gpumem-analyze: {first}"
    pattern = re.escape(expected).replace(r"\*", ".*")
    assert re.fullmatch(pattern, said[0]), said
    assert found == code
    assert first.startswith("error: ") or len(said) == 1, said


def test_a_report_whose_picture_has_no_place_is_complete(folder, tmp_path):
    """The folder is not writable: the report is printed, and one line shows where the picture can be written."""
    place = tmp_path / "read-only"
    place.mkdir()
    (place / "report.bin").write_bytes((folder / "report.bin").read_bytes())
    # A folder where the picture would be, for nothing stops a superuser from writing.
    (place / "report.svg").mkdir()
    done = harness.run([harness.ANALYZER, place / "report.bin"], check=False)
    assert done.returncode == 0
    assert "Lines that own the peak" in done.stdout
    assert len(done.stderr.splitlines()) == 1 and "flamegraph -o OUT.svg" in done.stderr


def test_each_command_has_a_manual_page(tmp_path):
    harness.run([harness.ANALYZER, "man", "-o", tmp_path / "man1"])
    pages = {page.name for page in (tmp_path / "man1").iterdir()}
    listed = re.findall(r"^  (\w+)  ", harness.run([harness.ANALYZER, "--help"]).stdout, re.M)
    commands = [name for name in listed if name not in ("help",) and not name.isdecimal()]
    assert len(commands) > 25
    assert {f"gpumem-analyze-{name}.1" for name in commands} <= pages
    assert {"gpumem-analyze.1", "gpumem-analyze-fleet-ingest.1"} <= pages
    page = harness.run([harness.ANALYZER, "man", "fleet", "ingest"]).stdout
    assert ".TH" in page and "gpumem" in page
