"""PyTorch's own snapshots (tests/data/captures/snapshot, of real PyTorch on the simulator), compared with Python's reading of them.

What breaks these tests: an entry of the trace that is skipped or counted twice, a block from before the trace that
is lost, frames that refer to another line, an opcode of the pickle that is not read."""

import pickletools
from collections import Counter

import captures
import harness
import pytest
import snapshot

WORKLOAD = captures.PROGRAMS / "torch_snapshot.py"


@pytest.fixture
def dumped(tmp_path):
    """A copy of the snapshot of that name."""

    def of(name):
        path = tmp_path / f"{name}.pickle"
        path.write_bytes(captures.content(f"snapshot/{name}.pickle"))
        return path

    return of


def imported(path, analyze):
    out = path.with_suffix(".bin")
    done = analyze("import", "torch-snapshot", path, "-o", out)
    assert done.returncode == 0, harness.described(done)
    return out


def by_line(rows):
    lines = Counter()
    for row in rows:
        lines[(row["file"], row["line"]) if row["file"] else None] += row["bytes"]
    return lines


def judged(path, analyze, analyze_json):
    """Compares all figures of an import with the snapshot's; returns the summary."""
    said = snapshot.load(path)
    report = imported(path, analyze)
    summary = analyze_json("report", "--all", report)
    assert summary["exact"] and summary["imported"] == f"PyTorch snapshot {path.name}"
    assert summary["hooks"] == 0 and summary["devices"][0]["unexplained_bytes"] is None
    assert by_line(analyze_json("lines", "--at", "end", report)) == snapshot.lines_at_the_end(said)
    peak, live = snapshot.replayed(said)
    tensor = summary["devices"][0]["tensor"]
    assert (tensor["peak_bytes"], tensor["live_bytes"]) == (peak, live)
    assert sum(row["bytes"] for row in analyze_json("lines", report)) == peak
    reserved = sum(segment["total_size"] for segment in said["segments"])
    assert summary["devices"][0]["driver"]["live_bytes"] == reserved
    return summary


def test_pytorch_2_15(dumped, analyze, analyze_json):
    """A whole trace. The run is recorded by gpumem, too."""
    report, path, jit = captures.capture("snapshot/whole"), dumped("whole"), dumped("whole.jit")
    said = snapshot.load(path)
    summary = judged(path, analyze, analyze_json)
    trace = said["device_traces"][0]
    # The tensor from before the history is freed within it.
    assert any("before the trace" in note for note in summary["notes"])
    assert summary["steps"] == 3
    started = min(entry["time_us"] for entry in trace)
    assert summary["process"]["started_unix_ns"] <= started * 1000
    assert summary["process"]["duration_ns"] >= (trace[-1]["time_us"] - started) * 1000
    # PyTorch's own pickler writes the same with other opcodes.
    opcodes = {code.name for code, _, _ in pickletools.genops(jit.read_bytes())}
    assert "BINPUT" in opcodes and "MEMOIZE" not in opcodes
    judged(jit, analyze, analyze_json)
    lines_are_pytorchs_own(said, analyze_json("lines", "--at", "end", report))


def lines_are_pytorchs_own(said, rows):
    """One run, recorded by both: PyTorch's blocks at the end, by the newest line of the user's code in their frames,
    are the lines of gpumem, to the byte. PyTorch has no Python frames for allocations of backward, which gpumem
    charges to nodes of autograd."""
    theirs = snapshot.lines_at_the_end(said, rounded=True)
    parts = [{**row, **part} for row in rows for part in row.get("parts", [{}])]
    ours = by_line(part for part in parts if "node" not in part)
    backward = sum(part["bytes"] for part in parts if "node" in part)
    assert theirs.pop(None) == backward > 0
    assert ours == theirs
    of_workload = [line for file, line in ours if file == str(WORKLOAD)]
    assert len(of_workload) >= 5 and len(ours) == len(of_workload), ours


@pytest.mark.parametrize("name", ["cut", "state"])
def test_a_trace_that_is_not_whole(name, dumped, analyze, analyze_json):
    path = dumped(name)
    # In the mode "state" the segments' entries are recorded nevertheless.
    trace = snapshot.load(path)["device_traces"][0]
    trace = [entry for entry in trace if not entry["action"].startswith("segment")]
    assert len(trace) in ((0,) if name == "state" else range(100, 151))
    summary = judged(path, analyze, analyze_json)
    assert any("before the trace" in note for note in summary["notes"]) == bool(trace)
    assert any("has no trace" in note for note in summary["notes"]) == (not trace)


def test_native_frames_and_expandable_segments(dumped, analyze, analyze_json):
    path = dumped("native")
    judged(path, analyze, analyze_json)
    report = path.with_suffix(".bin")
    for command in (
        [], ["report", "--all"], ["lines"], ["ledger", "--segments"], ["changes"], ["tree", "--native"], ["oom"], ["check"],
    ):
        said = analyze(*command, report).stdout
        assert "hooks armed" not in said and "agrees with NVML" not in said, command
    folded = analyze("flamegraph", "--native", "--format", "folded", "--at", "end", report).stdout
    assert "torch::CapturedTraceback" not in folded, "what takes the stack is no part of it"
    assert "torch_snapshot.py" in folded and "at::" in folded


def test_pytorch_1_12(dumped, analyze, analyze_json):
    """It has no stacks and no trace: segments alone."""
    summary = judged(dumped("old"), analyze, analyze_json)
    assert summary["devices"][0]["tensor"]["live_bytes"] > 0
    assert any("has no trace" in note for note in summary["notes"])
