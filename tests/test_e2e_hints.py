"""Each hint is given for a program that has the fault, with the bytes in the program's own figures, and is not given
for the same program without it.

What breaks these tests: a hint about what every program has, a figure of another moment than the peak, an
optimizer's state counted among gradients, or a fault that is no longer found."""

import harness
import pytest
from captures import capture

MIB = 1 << 20
LAYER = 8192 * 8192 * 4  # bytes of one weight
BIAS = 8192 * 4
# fault: bytes. Sizes follow from faults.py.
FAULTS = {
    # Adam keeps two figures for each parameter; its step counts are on the host.
    "optimizer_state": 2 * 4 * (LAYER + BIAS),
    # Four results of 16384 rows, all there at the end of the forward.
    "not_in_place": 4 * 16384 * 8192 * 4,
    "cache_emptied": None,
    "workspaces": None,
    "cached_unused": 10 * 64 * MIB,
    "no_grad": None,
    "imbalance": 768 * MIB,
    # 8 steps: 7 more losses than after the first, each with four activations of 1024 rows.
    "kept_graphs": 7 * 4 * 1024 * 8192 * 4,
    "growing": 7 * 32 * MIB,
    # Four activations of 4096 rows.
    "no_backward": 4 * 4096 * 8192 * 4,
    "spikes": None,
}
# Without these faults the program is the same training.
OF_THE_TRAINING = ("optimizer_state", "cache_emptied", "workspaces", "cached_unused")


def hinted(fault, kind):
    """The hints about a program of faults.py, by what they are about, and its capture."""
    report = capture("faults/training" if kind == "clean" and fault in OF_THE_TRAINING else f"faults/{fault}-{kind}")
    return {hint["kind"]: hint for hint in harness.analyze_json("report", "--hints", report)}, report


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_told_and_its_absence_is_not(fault, analyze_json):
    faulty, report = hinted(fault, "faulty")
    clean, _ = hinted(fault, "clean")
    assert fault in faulty and fault not in clean, (faulty.keys(), clean.keys())
    found = faulty[fault]
    if FAULTS[fault] is not None:
        assert found["bytes"] == FAULTS[fault]
    peak = harness.device_of(analyze_json("report", "--all", report))["tensor"]["peak_bytes"]
    if fault not in ("cache_emptied", "cached_unused", "imbalance"):
        assert found["bytes"] <= peak
        assert sum(line["bytes"] for line in found["lines"]) == found["bytes"], "five lines have all of it"
        assert all(line["file"].endswith("faults.py") for line in found["lines"]), found


def test_a_spike_is_what_the_call_needs_beside_its_results():
    """The results of the sort, which stay, are none of it; the sizes are those of single blocks."""
    found = hinted("spikes", "faulty")[0]["spikes"]
    longest = 8 * 4 * MIB  # numbers of the last sort
    assert longest * 8 <= found["bytes"] < longest * 32
    assert [line["function"] for line in found["lines"]] == ["spikes.<locals>.sort"]
    assert f"within {16} events" in found["what"], found["what"]


def test_a_list_of_losses_holds_its_graphs_and_what_went_into_them():
    """Memory that forward allocated is separate from other memory held with it: the samples of 1024 rows, and the
    losses."""
    hints, _ = hinted("kept_graphs", "faulty")
    assert [line["function"] for line in hints["kept_graphs"]["lines"]] == ["Net.forward"]
    assert hints["growing"]["bytes"] == 7 * (1024 * 8192 * 4 + 512)


def test_a_program_without_any_fault_gets_no_hint(analyze):
    clean, report = hinted("optimizer_state", "clean")
    assert clean == {}
    assert analyze("report", "--hints", report).stdout == "No hints for this capture.\n"


def test_the_text_names_bytes_lines_and_advice(analyze):
    _, report = hinted("optimizer_state", "faulty")
    text = analyze("report", "--hints", report).stdout
    assert "2.00 GiB at the peak is optimizer state" in text
    source = (harness.WORKLOADS / "faults.py").read_text().splitlines()
    line = next(number for number, text in enumerate(source, 1) if "optimizer.step()" in text)
    assert f"faults.py:{line}\n" in text and "→ shard the state" in text


# A fold's model and optimizer stay in a list.
FOLDS = """
import torch
from torch import nn

kept = []


def train(layers):
    model = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(layers)]).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.ones(8, 1024, device="cuda")).sum().backward()
        optimizer.step()
    kept.append((model, optimizer))


for fold in range(99):
    train(8)
"""


def test_the_state_of_earlier_optimizers_needs_no_smaller_one(forks, tmp_path):
    """The cause is that they are kept, on each surface: no hint shards their state."""
    (tmp_path / "folds.py").write_text(FOLDS)
    done = forks("torch215").run([tmp_path / "folds.py"], cwd=tmp_path, memory="2GiB", env={}, check=False)
    report = tmp_path / "report.bin"
    assert "models of" in harness.analyze_json("oom", report)["cause"]["what"], harness.described(done)
    by_kind = [hint["kind"] for hint in harness.analyze_json("report", "--hints", report)]
    assert by_kind[0] == "out_of_memory" and "optimizer_state" not in by_kind
    assert [hint["kind"] for hint in harness.analyze_json("report", report)["hints"]] == by_kind[1:]
