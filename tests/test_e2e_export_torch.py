"""`gpumem-analyze export torch-snapshot` of real trainings (tests/data/captures), read by PyTorch's own viewer of snapshots.

What breaks these tests: a block that does not follow the one before it, a frame that refers to another line, an
opcode that the viewer in the browser does not accept, a list that is filled in parts of more than 1000."""

import importlib.util
import pickletools
from collections import Counter

import pytest
import snapshot
from captures import trained

# The opcodes that pytorch.org/memory_viz reads: a pickle reader in JavaScript, for protocols up to 4.
TAKEN = set(
    "PROTO FRAME MEMOIZE BINPUT LONG_BINPUT BINGET LONG_BINGET EMPTY_DICT EMPTY_LIST EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 "
    "TUPLE3 APPEND APPENDS SETITEM SETITEMS DICT LIST MARK BININT BININT1 BININT2 LONG1 BINFLOAT NEWTRUE NEWFALSE NONE "
    "SHORT_BINUNICODE BINUNICODE STOP".split()
)


@pytest.fixture(scope="module")
def viewer(python_env):
    """torch/cuda/_memory_viz.py, which needs no PyTorch itself."""
    [path] = python_env("torch215").parent.parent.glob("lib/python3*/site-packages/torch/cuda/_memory_viz.py")
    spec = importlib.util.spec_from_file_location("memory_viz", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def by_line(rows):
    lines = Counter()
    for row in rows:
        lines[(row["file"], row["line"]) if row["file"] else None] += row["bytes"]
    return lines


def the_browser_takes(path):
    marks, values = [], 0
    for opcode, argument, _ in pickletools.genops(path.read_bytes()):
        assert opcode.name in TAKEN, opcode.name
        if opcode.name == "PROTO":
            assert argument <= 4
        if opcode.name == "LONG1":
            assert abs(argument) < 1 << 63
        # Values on the stack since the newest mark.
        if opcode.name == "MARK":
            marks.append(values)
            values = 0
        elif opcode.name in ("APPENDS", "SETITEMS"):
            assert opcode.name == "SETITEMS" or values <= 1000
            values = marks.pop()
        elif opcode.name == "TUPLE2":
            values -= 1
        elif opcode.name not in ("PROTO", "MEMOIZE", "STOP"):
            values += 1
    assert not marks


@pytest.mark.parametrize("environment", ["torch215", "torch112"])
def test_pytorchs_viewer_reads_it(viewer, tmp_path, analyze, analyze_json, environment):
    report, path = trained(environment).report, tmp_path / "out.pickle"
    analyze("export", "torch-snapshot", "-o", path, report)
    the_browser_takes(path)
    said = snapshot.load(path)
    device = analyze_json("report", "--all", report)["devices"][0]
    # Segments are filled without a gap, and are PyTorch's pool.
    for segment in said["segments"]:
        address = segment["address"]
        for block in segment["blocks"]:
            assert block["address"] == address
            address += block["size"]
        assert address == segment["address"] + segment["total_size"]
    assert sum(segment["total_size"] for segment in said["segments"]) == device["reserved"]["live_bytes"]
    # The trace leads to the same figures, and the frames to the same lines.
    assert snapshot.replayed(said) == (device["tensor"]["peak_bytes"], device["tensor"]["live_bytes"])
    assert snapshot.lines_at_the_end(said) == by_line(analyze_json("lines", "--at", "end", report))
    # All that the viewer does.
    same = lambda text: text  # noqa: E731
    assert f"segments: {len(said['segments'])}" in viewer.segsum(said)
    assert viewer.trace(said).count(" = cudaMalloc(") == len(said["segments"])
    memory = viewer.memory(said, same)
    assert sum(int(line.rsplit(" ", 1)[1]) for line in memory.splitlines()) == device["reserved"]["live_bytes"]
    assert viewer.segments(said, same) and viewer.compare(said["segments"][:1], said["segments"], same)
    assert "snapshot.pickle" in viewer.segment_plot(said) and "snapshot.pickle" in viewer.trace_plot(said)
    # There and back.
    back = tmp_path / "back.bin"
    analyze("import", "torch-snapshot", path, "-o", back)
    for at in ("peak", "end"):
        lines = [by_line(analyze_json("lines", "--at", at, file)) for file in (report, back)]
        assert lines[0] == lines[1], at
