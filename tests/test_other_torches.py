"""Backward of PyTorch's other releases, on the simulator: opt-in, as each is a large download.

    GPUMEM_OTHER_TORCHES=PYTHON[:PYTHON…] pytest -c tests/pytest.ini tests/test_other_torches.py

Each PYTHON is one with a PyTorch for CUDA 12 or 13; it needs the wheel `torch` itself, what importing it needs,
and NVIDIA's small ones for nvrtc and nvtx. docs/measured/backward.md has what was found.

What breaks these tests: a release whose nodes, tensors or storages are laid out in a way of its own, or that
calls one of the hooked functions no more."""

import os
import re
from collections import Counter
from pathlib import Path

import harness
import other_torch
import pytest
from test_e2e_backward import BACKWARDS, OTHERS, PHASE_BEGIN, SQUARE, STEP, Owner, Records
from test_e2e_charged import EVERYWHERE, MODELS, owners_at_peak, share_with_a_line
from test_interposer import QUIET, dump  # noqa: F401

PYTHONS = [Path(path) for path in os.environ.get("GPUMEM_OTHER_TORCHES", "").split(":") if path]
if not PYTHONS:
    pytest.skip("GPUMEM_OTHER_TORCHES names no Python", allow_module_level=True)


@pytest.fixture(scope="session", params=PYTHONS, ids=lambda python: python.parts[-3])
def release(request, tmp_path_factory):
    """A Python, and the environment in which its PyTorch runs on the simulator."""
    return request.param, other_torch.environment(request.param, tmp_path_factory.mktemp("parts"))


@pytest.fixture(scope="session")
def record(release, dump, tmp_path_factory):  # noqa: F811
    """Runs a workload with that PyTorch under the library; its records and its capture."""
    python, parts = release

    def record(script, *arguments):
        report = tmp_path_factory.mktemp("other") / "report.bin"
        env = {**QUIET, **parts, "GPUMEM_OUTPUT": str(report)}
        env["LD_PRELOAD"] = f"{harness.LIBRARY}:{env.pop('OTHER_TORCH_PRELOAD')}"
        command = [python, "-W", "ignore", harness.WORKLOADS / script, *arguments]
        harness.simulate(command, devices=2, env=env, timeout=280)
        return Records(dump, report), report

    return record


@pytest.fixture(scope="session")
def cases(record):
    return record("backward_lines.py", *BACKWARDS, *OTHERS)[0]


@pytest.mark.parametrize("case", BACKWARDS)
def test_backward_is_charged_to_the_forward(case, cases):
    owners = cases.bytes_by_owner(case)
    found = {tuple(owner): size for owner, size in owners.items() if owner.node is not None}
    assert found.keys() == BACKWARDS[case].keys()
    for owner, squares in BACKWARDS[case].items():
        # Where releases add up a gradient's parts, they do it in one of two ways.
        assert found[owner] in [each * SQUARE for each in (squares if isinstance(squares, tuple) else (squares,))]
    assert None not in {owner.function for owner in owners}
    assert cases.notes == []


def test_convolution_mixed_precision_and_scripted_code(cases):
    owners = sum(map(cases.bytes_by_owner, OTHERS), Counter())
    assert owners[Owner("convolved", "ConvolutionBackward0")] > 4 * 8 * 32 * 32 * 4
    assert owners[Owner("product", "ToCopyBackward0")] == 3 * SQUARE
    assert [owner for owner in owners if owner.node == "DifferentiableGraphBackward"] == [
        Owner("scripted", "DifferentiableGraphBackward")
    ]
    assert None not in {owner.function for owner in owners}


def test_a_training_has_a_line_for_every_byte(record):
    records, report = record("train.py", "--steps", "3", "--batch", "4", "--no-cudnn")
    assert records.notes == []
    assert {owner.node for owner in records.bytes_by_owner()} >= {None, "ConvolutionBackward0", "NativeLayerNormBackward0"}
    for at in ("peak", "end"):
        rows = harness.analyze_json("lines", "--level", "tensor", "--at", at, report)
        total, charged = sum(row["bytes"] for row in rows), sum(row["bytes"] for row in rows if row["file"])
        assert total > 0 and charged == total
    phases = Counter(event["aux"] for event in records.events(PHASE_BEGIN))
    assert phases == {1: 3, 2: 3, 3: 3}, "backward, optimizer and zeroing of gradients, three times each"
    assert len(records.events(STEP)) == 3


def test_phases_and_steps(record):
    steps = record("phases.py", "gathered")[0].events(STEP)
    assert [event["aux"] for event in steps] == [1, 2, 3]


# Sequence number, thread, AccumulateGrad's variable; TensorImpl's storage and StorageImpl's data.
LAYOUTS = {(24, 48, 376, 24, 24), (24, 48, 392, 24, 24), (24, 48, 472, 24, 24), (24, 48, 472, 16, 16), (16, 40, 464, 16, 16)}


def test_the_headers_have_a_layout_that_is_known(release, build_c):
    torch = other_torch.packages_of(release[0]) / "torch"
    standard = "-std=c++20" if "C++20" in (torch / "include" / "ATen" / "ATen.h").read_text() else "-std=c++17"
    assembly = build_c("torch_layout.cpp", standard, "-w", "-S", "-fno-access-control", f"-I{torch}/include")
    layout = assembly.read_text().split("\nLAYOUT:\n")[1]
    assert tuple(map(int, re.findall(r"\.quad\s+(\d+)", layout)[:5])) in LAYOUTS


@pytest.fixture(scope="session")
def trained_so(record):
    known = {}

    def trained_so(process):
        if process not in known:
            known[process] = record("charged_models.py", *EVERYWHERE[process])[0]
        return known[process]

    return trained_so


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("process", "case"), [(process, case) for process, cases in EVERYWHERE.items() for case in cases])
def test_nearly_all_has_a_line(process, case, model, trained_so):
    records, within = trained_so(process), f"{model} {case}"
    assert records.notes == []
    backward = Counter({owner: size for owner, size in records.bytes_by_owner(within).items() if owner.node})
    assert share_with_a_line(backward) >= 0.99
    assert share_with_a_line(owners_at_peak(records, within)) >= 0.99
