"""PyTorch's other releases on the simulator, backward and the allocator: opt-in, because each is a large download.

    GPUMEM_OTHER_TORCHES=PYTHON[:PYTHON…] pytest -c tests/pytest.ini tests/test_other_torches.py

Each PYTHON is one with a PyTorch for CUDA 12 or 13; it needs the wheel `torch`, the packages to import it, and
NVIDIA's small wheels for nvrtc and nvtx. docs/measured/backward.md and docs/measured/whatif.md have the results.

What breaks these tests: a release with another layout of nodes, tensors, storages or the allocator, or that no
longer calls one of the hooked functions."""

import json
import os
import re
from collections import Counter
from pathlib import Path

import harness
import other_torch
import pytest
import schemas
import whatif
from gpumem._machine import simulator
from test_e2e_backward import BACKWARDS, OTHERS, PHASE_BEGIN, SQUARE, STEP, Owner, Records
from test_e2e_charged import EVERYWHERE, MODELS, owners_at_peak, share_with_a_line
from test_e2e_holders import PLANTED, SCRIPT, are_freed, holders_in
from test_interposer import QUIET  # noqa: F401
from test_plan import PROGRAM, plan

pytestmark = pytest.mark.slow
PYTHONS = [Path(path) for path in os.environ.get("GPUMEM_OTHER_TORCHES", "").split(":") if path]
if not PYTHONS:
    pytest.skip("GPUMEM_OTHER_TORCHES names no Python", allow_module_level=True)


@pytest.fixture(scope="session", params=PYTHONS, ids=lambda python: python.parts[-3])
def release(request, tmp_path_factory):
    """A Python, and the environment in which its PyTorch runs on the simulator."""
    return request.param, other_torch.environment(request.param, tmp_path_factory.mktemp("parts"))


@pytest.fixture(scope="session")
def record(release, dump, tmp_path_factory):
    """Runs a workload with that PyTorch under the library; its records and its capture."""
    python, parts = release

    def record(script, *arguments):
        report = tmp_path_factory.mktemp("other") / "report.bin"
        env = {**QUIET, **parts, "GPUMEM_OUTPUT": str(report)}
        env["LD_PRELOAD"] = f"{harness.LIBRARY}:{env.pop('OTHER_TORCH_PRELOAD')}"
        command = [python, "-W", "ignore", harness.WORKLOADS / script, *arguments]
        harness.simulate(command, devices=2, env=env)
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


def test_a_plan_has_the_peaks_of_a_run(release, tmp_path):
    python, report = release[0], tmp_path / "stats.json"
    refused = simulator.refusal(str(python))
    if refused:
        pytest.skip(refused)
    if not list(other_torch.packages_of(python).glob("nvidia/**/libcusparse.so*")):
        pytest.skip("NVIDIA's libraries for which the simulator has none are not installed")
    harness.run([harness.WITH_SIMULATOR, python, PROGRAM, "--report", report], env=harness.clean_environment(), check=False)
    stats = json.loads(report.read_text())
    done = plan(python, "--card", "16GiB", "--format", "json", "--", PROGRAM)
    [case] = schemas.found("plan", done.stdout)["cases"]
    assert (done.returncode, case["verdict"]) == (0, "fits"), done.stderr
    assert case["tensor_peak_bytes"] == [stats["allocated_bytes.all.peak"]] * 2
    assert case["reserved_peak_bytes"] == [stats["reserved_bytes.all.peak"]] * 2


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


@pytest.fixture(scope="session")
def bench(release, tmp_path_factory):
    bench = whatif.Bench(release[0], tmp_path_factory.mktemp("whatif"), release[1])
    yield bench
    bench.close()


def pytorch_of(capture):
    return harness.analyze_json("report", "--all", capture)["process"]["pytorch"]


# Threads, streams and record_stream, pools, graphs, settings at run time, a memory fraction.
PROGRAMS = ["gpt", "lengths", "switches", *(f"random:{n}" for n in range(4)), *(f"wide:{n}" for n in range(3))]


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_allocator_is_seen(program, bench, release):
    capture, _ = bench.record(program)
    seen = pytorch_of(capture)
    assert seen["allocator"] == "native"
    names = harness.run(["nm", "-D", *(other_torch.packages_of(release[0]) / "torch" / "lib").glob("libtorch_[cp]*.so")])
    wanted = {"requested", "stream", "record_stream", "released", "pool", "calls", "settings"}
    # Before 2.2 no call shows when a block that was used on another stream is free again.
    may_lack = set() if "27attachAllocatorTraceTracker" in names.stdout else {"released"}
    assert wanted - may_lack <= set(seen["allocator_seen"]) <= wanted
    assert not seen.get("allocator_unknown")


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_replay_has_the_figures_of_a_rerun(program, bench):
    capture, real = bench.record(program)
    peaks = set()
    for settings in whatif.FEW:
        for card in (whatif.ROOMY, *(whatif.cards(real)[2:] if ":" in program else ())):
            rerun, differ = bench.differences(program, capture, settings, card)
            assert differ == {}, (settings, card)
            peaks.add(rerun["figures"]["reserved_bytes.all.peak"])
    assert real["figures"]["allocated_bytes.all.peak"] > 10 << 20 and len(peaks) > 1


def test_the_command_replays_by_the_release_itself(release, bench):
    """As a user calls it: the card of `with-simulator` alone, and empty libraries for those that are not installed."""
    capture, real = bench.record("lengths")
    python, parts = release
    env = {"PYTHONPATH": str(harness.ROOT / "python"), "LD_LIBRARY_PATH": parts["LD_LIBRARY_PATH"]}
    command = [python, "-m", "gpumem", "whatif", capture, "--conf", "expandable_segments:True", "--format", "json"]
    done = harness.run(command, env=env, check=False)
    assert done.returncode == 0, done.stderr
    said = schemas.found("whatif", done.stdout)
    assert said["exact"] and said["doubts"] == []
    own, other = (replay["figures"]["reserved_bytes.all.peak"] for replay in said["devices"][0]["replays"])
    assert own == real["figures"]["reserved_bytes.all.peak"] > other


@pytest.mark.parametrize("mode, count", PLANTED.items())
def test_a_holder_that_is_released_frees_what_is_recorded(release, dump, tmp_path, mode, count):
    """The observer is attached to that release's allocator, and its tensors are read."""
    python, parts = release
    env = {**QUIET, **parts, "GPUMEM_OUTPUT": str(tmp_path / "report.bin")}
    env["LD_PRELOAD"] = f"{harness.LIBRARY}:{env.pop('OTHER_TORCH_PRELOAD')}"
    done = harness.simulate([python, "-W", "ignore", SCRIPT, mode], memory="8GiB", env=env)
    [failure] = holders_in(dump, tmp_path / "report.bin")
    assert are_freed(done, count, failure)
