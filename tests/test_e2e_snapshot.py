"""PyTorch's own snapshots, of real PyTorch on the simulator, against what Python makes of them.

What breaks these tests: an entry of the trace that is passed over or counted twice, a block from before
the trace that is forgotten, frames that come to another line, an opcode of the pickle that is not read."""

import pickletools
from collections import Counter

import harness
import pytest
import snapshot

WORKLOAD = harness.WORKLOADS / "torch_snapshot.py"


def dumped(python, environment, folder, *options, name="dump.pickle", **with_):
    path = folder / name
    harness.simulate(
        [python, WORKLOAD, path, *options], env={**harness.SIMULATED_CARD[environment], **with_.pop("env", {})},
        cwd=folder, **with_
    )
    return path


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
    summary = analyze_json("summary", report)
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


@pytest.mark.parametrize(
    "options, env",
    [
        ((), {}),
        (("--entries", "150"), {}),
        (("--state",), {}),
        (("--stacks", "all"), {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),
    ],
    ids=["whole", "cut-off", "state", "expandable"],
)
def test_pytorch_2_15(python_env, tmp_path, analyze, analyze_json, options, env):
    jit = tmp_path / "jit.pickle"
    path = dumped(python_env("torch215"), "torch215", tmp_path, *options, "--jit", jit, env=env)
    said = snapshot.load(path)
    summary = judged(path, analyze, analyze_json)
    # In the mode "state" what segments do is recorded all the same.
    trace = [entry for entry in said["device_traces"][0] if not entry["action"].startswith("segment")]
    whole = "--state" not in options and "--entries" not in options
    assert (len(trace) == 0) == ("--state" in options)
    # The tensor from before the history is freed within it.
    assert any("before the trace" in note for note in summary["notes"]) == bool(trace)
    assert any("has no trace" in note for note in summary["notes"]) == (not trace)
    if whole:
        assert summary["steps"] == 3
        started = min(entry["time_us"] for entry in trace)
        assert summary["process"]["started_unix_ns"] <= started * 1000
        assert summary["process"]["duration_ns"] >= (trace[-1]["time_us"] - started) * 1000
    # PyTorch's own pickler writes the same with other opcodes.
    opcodes = {code.name for code, _, _ in pickletools.genops(jit.read_bytes())}
    assert "BINPUT" in opcodes and "MEMOIZE" not in opcodes
    judged(jit, analyze, analyze_json)


def test_pytorch_1_12(python_env, tmp_path, analyze, analyze_json):
    """It has no stacks and no trace: segments alone."""
    path = dumped(python_env("torch112"), "torch112", tmp_path)
    summary = judged(path, analyze, analyze_json)
    assert summary["devices"][0]["tensor"]["live_bytes"] > 0
    assert any("has no trace" in note for note in summary["notes"])


def test_every_view(python_env, tmp_path, analyze):
    path = dumped(python_env("torch215"), "torch215", tmp_path, "--stacks", "all")
    report = imported(path, analyze)
    for command in (
        [], ["summary"], ["lines"], ["ledger", "--segments"], ["changes"], ["tree", "--native"], ["oom"], ["check"],
        ["flamegraph", "--folded"],
    ):
        said = analyze(*command, report).stdout
        assert "hooks armed" not in said and "agrees with NVML" not in said, command
    folded = analyze("flamegraph", "--folded", "--at", "end", report).stdout
    assert "torch::CapturedTraceback" not in folded, "what takes the stack is no part of it"
    assert "torch_snapshot.py" in folded and "at::" in folded
