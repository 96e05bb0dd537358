"""The parts of scripts/gpu-check that need no GPU: on the simulator, and on a machine without a GPU."""

import importlib.util
import json
import sys

import harness
import pytest

CHECKOUT = {"PYTHONPATH": str(harness.ROOT / "python")}
GPU_CHECK = harness.ROOT / "scripts" / "gpu-check"


@pytest.fixture(scope="module")
def gpu_check():
    """The script's module, which finds others beside it."""
    path = harness.ROOT / "scripts" / "lib" / "gpu_check.py"
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location("gpu_check", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["gpu_check"] = module
    spec.loader.exec_module(module)
    return module


def test_without_a_gpu():
    if harness.run(["sh", "-c", "ls /dev/nvidia0 2>/dev/null"], check=False).returncode == 0:
        pytest.skip("there is a GPU here")
    done = harness.run([GPU_CHECK], check=False)
    assert done.returncode == 77
    assert "no GPU here" in done.stderr and done.stdout == ""


def test_facts_of_the_simulator(simulate, tmp_path):
    """Each fact is the one in the simulator's documentation; two runs do not differ, two cards do."""
    first = json.loads(simulate([GPU_CHECK, "--facts"]).stdout)
    assert first["block.2097153"]["card_step"] == first["block.2097153"]["page_rule"] == 4 << 20
    assert first["blocks.5000x512"]["nearest"] == 512
    assert all(
        fact["card_step"] == fact["page_rule"] == fact["nvml_step"]
        for name, fact in first.items() if name.startswith("block.")
    )
    assert first["context.first_nvml_step"] == 512 << 20 and first["context.listed_by_nvml"]
    assert first["vmm.minimum"] == 2 << 20 and first["vmm.retained_is_the_handle"]
    assert [step[2] for step in first["vmm.steps"] if step[0] in ("create", "unmap the other")] == [6 << 20, -6 << 20]
    assert first["error.cuMemFree_twice"] == 1 and first["error.no_context.cuMemAlloc"] == 201
    assert first["error.card_step"] == 0
    first_managed, larger_stack = 64 << 20, 3 * 1024 * 132 * 2048
    assert first["end.left_on_the_card"] == first_managed + larger_stack
    assert first["lookup.cuMemAlloc.3020.0"] == "cuMemAlloc_v2"
    answers = {answer for name, answer in first.items() if name.startswith("lookup.")}
    assert "not an export" not in answers and first["lookups.equal_to_dlsym"] > 800

    def compared(env):
        second = simulate([GPU_CHECK, "--facts"], env=env).stdout
        (tmp_path / "first.json").write_text(json.dumps(first))
        (tmp_path / "second.json").write_text(second)
        return harness.run(
            [GPU_CHECK, "--compare", tmp_path / "first.json", tmp_path / "second.json"], check=False
        )

    same = compared({})
    assert (same.returncode, same.stdout) == (0, "no differences\n")
    older = compared({"GPUMEM_SIM_DRIVER_VERSION": "13000"})
    assert older.returncode == 0, older.stdout
    assert older.stdout == "no differences\n17 lookups of versions that one of the drivers does not have are left out\n"
    other = compared({"GPUMEM_SIM_CONTEXT_BYTES": "64MiB"})
    assert other.returncode == 1
    assert "context.first_nvml_step: card 536870912, simulator 67108864" in other.stdout.splitlines()


@pytest.mark.slow
def test_the_cards_file(python_env, tmp_path):
    """`gpumem card measure` of the existing card, and no other output."""
    done = harness.run(
        [harness.WITH_SIMULATOR, "--card", "t4", GPU_CHECK, "--card", "--python", python_env("numba"), "--output", tmp_path]
    )
    written = json.loads((tmp_path / "card-file.json").read_text())
    assert (written["name"], written["context"]["bytes"]) == ("t4", [86 << 20] * 3)
    assert "written: " in done.stdout and not (tmp_path / "rows.json").exists()
    others = {"GPUMEM_SIM_OTHER_BYTES": "1GiB"}
    again = harness.run([harness.WITH_SIMULATOR, GPU_CHECK, "--card", "--output", tmp_path], env=others, check=False)
    assert again.returncode == 1 and "other programs use GPU 0" in again.stderr
    assert not (tmp_path / "card-file.json").exists(), "an earlier check's is no result of this one"


@pytest.mark.slow
def test_pytorch_on_the_simulator(simulate, python_env, tmp_path):
    done = simulate(
        [GPU_CHECK, "--python", python_env("torch215"), "--python", python_env("numba"), "--output", tmp_path / "out",
         "--only", "native", "--only", "segments", "--only", "cudaMallocAsync", "--only", "numba", "--only", "static",
         "--only", "CuPy"],
        check=False, timeout=600,
    )
    assert done.returncode == 0, harness.described(done)
    lines = done.stdout.splitlines()
    verdicts = {line.split("  ")[0]: line.split()[-1] for line in lines if line.endswith(("agrees", "DIFFERS"))}
    assert verdicts == {
        "PyTorch, native": "agrees", "PyTorch, expandable segments": "agrees",
        "PyTorch, cudaMallocAsync": "agrees", "numba-cuda": "agrees",
    }
    skipped = [line for line in lines if ": skipped: " in line]
    assert [line.split(":")[0] for line in skipped] == ["CuPy", "C++, static cudart"]
    rows = json.loads((tmp_path / "out" / "rows.json").read_text())
    native = rows["PyTorch, native"]
    figures, device = native["figures"], native["summary"]["devices"][0]
    assert figures["nvml"]["card_used"] == figures["cuMemGetInfo"] > figures["torch"]["reserved"]
    assert device["tensor"]["peak_bytes"] == figures["torch"]["max_allocated"] > 1 << 20
    assert device["driver"]["live_bytes"] == figures["counters"]["driver"]["live"]


@pytest.mark.slow
def test_graphs_on_the_simulator(simulate, python_env, tmp_path):
    done = simulate(
        [GPU_CHECK, "--python", python_env("torch215"), "--output", tmp_path / "out", "--only", "graphs"],
        check=False, timeout=600,
    )
    assert done.returncode == 0, harness.described(done)


@pytest.mark.parametrize(
    "fault, told",
    (
        ({"exact": False, "missing": ["something"]}, "not exact: something"),
        ({"lost_events": 3}, "3 events lost"),
        ({"tensor": 5}, "tensor peak 5, PyTorch says 100"),
        ({"reserved": 7}, "reserved peak 7, PyTorch says 200"),
        ({"rows": 1}, "the ledger's rows do not sum to its figure"),
        ({"nvml": 900}, "NVML gave the recorder 900 for this process, and gave us 1000"),
        ({}, None),
    ),
)
def test_a_fault_is_told(fault, told, gpu_check, monkeypatch, tmp_path):
    device = {
        "ordinal": 0, "tensor": {"peak_bytes": fault.get("tensor", 100)}, "physical": {"live_bytes": 300},
        "driver": {"peak_bytes": 300, "live_bytes": 300}, "reserved": {"peak_bytes": fault.get("reserved", 200)},
    }
    summary = {
        "exact": fault.get("exact", True), "missing": fault.get("missing", []),
        "lost_events": fault.get("lost_events", 0), "devices": [device],
    }
    ledger = [{
        "device": 0, "bytes": 300, "rows": [{"bytes": 300 + fault.get("rows", 0)}],
        "nvml_process_bytes": fault.get("nvml", 1000), "unexplained_bytes": 0,
    }]
    monkeypatch.setattr(gpu_check, "analyze", lambda view, *rest: summary if view == "report" else ledger)
    figures = {
        "torch": {"max_allocated": 100, "max_reserved": 200}, "counters": {"driver": {"peak": 300}},
        "nvml": {"process": 1000, "card_used": 1200},
    }
    row = gpu_check.Row("x")
    workload = gpu_check.Workload("x", "x.py", "torch", {}, True)
    gpu_check.judge(row, workload, tmp_path / "report.bin", figures)
    assert row.faults == ([told] if told else [])
    assert ("DIFFERS" if told else "agrees") in gpu_check.table([row])


@pytest.mark.slow
def test_plans_beside_runs(python_env, tmp_path):
    """A program on the card and what is planned for it by the card's file, which is there already."""
    card = harness.run([sys.executable, "-m", "gpumem", "card", "show", "t4", "--format", "json"], env=CHECKOUT).stdout
    (tmp_path / "card-file.json").write_text(json.dumps(harness.unwrapped(card)))
    done = harness.run(
        [harness.WITH_SIMULATOR, "--card", "t4", GPU_CHECK, "--plan", "--only", "gpt", "--python", python_env("torch215"), "--output", tmp_path]
    )
    [row] = json.loads((tmp_path / "plans.json").read_text())
    assert (row["name"], row["verdict"], row["faults"], row["ran_out"]) == ("gpt", "fits", [], False)
    for what in ("tensors", "reserved by PyTorch"):
        assert row["planned"][what] == [row["measured"][what]] * 2
    low, high = row["planned"]["on the card"]
    assert low <= row["measured"]["on the card"] <= high
    assert "1 planned as fits, of which 0 ran out" in done.stdout


@pytest.mark.parametrize(
    ("verdict", "ran_out", "measured", "told"),
    [
        ("fits", True, 900, "the plan says that it fits, and memory ran out"),
        ("does not fit", False, 900, "the plan says that it does not fit, and memory was enough"),
        ("too close to say", True, 900, None),
        ("fits", False, 1040, None),
        ("fits", False, 1060, "the card's peak is 5.7% outside of the plan"),
        ("fits", False, 800, "the card's peak is 12.5% outside of the plan"),
    ],
)
def test_what_the_card_contradicts(verdict, ran_out, measured, told, gpu_check):
    row = gpu_check.gpu_plan.Compared("x", verdict=verdict, ran_out=ran_out, planned={"on the card": [900, 1000]}, measured={"on the card": measured})
    row.judge()
    assert row.faults == ([told] if told else [])
    assert ("DIFFERS" if told else "agrees") in gpu_check.gpu_plan.table([row])


@pytest.mark.slow
def test_a_guest_is_not_noticed(simulate, python_env, tmp_path):
    """A program with the recorder beside the same without it, and what its steps take."""
    done = simulate(
        [GPU_CHECK, "--guest", "--only", "CUDA graph", "--python", python_env("torch215"), "--output", tmp_path], check=False, timeout=600
    )
    assert done.returncode == 0, harness.described(done)
    assert done.stdout.splitlines()[1].split("  ")[0] == "CUDA graph" and done.stdout.splitlines()[1].endswith("the same")
    assert json.loads((tmp_path / "guests.json").read_text()) == {"found": {"CUDA graph": []}, "step_us": {}}


@pytest.mark.parametrize(
    ("before", "ours", "told"),
    [
        ([(0, "a\nb", "")] * 2, (0, "b\na", ""), []),
        ([(0, "a\nb", "")] * 2, (0, "a\nc", ""), ["stdout lacks b", "stdout has c"]),
        ([(0, "a 1", ""), (0, "a 2", "")], (0, "a 3", ""), []),  # not the same without the recorder either
        ([(0, "a", "")] * 2, (-6, "a", "boom"), ["it ends with -6, not with 0: boom", "stderr has boom"]),
        ([(0, "a", "STEP_US 1")] * 2, (0, "a", "STEP_US 2"), []),
        ([(0, "a\na", "")] * 2, (0, "a", ""), ["stdout lacks a"]),
    ],
)
def test_what_a_guest_notices(before, ours, told, gpu_check):
    guest = gpu_check.gpu_guest
    assert guest.differences([guest.Run(*run) for run in before], guest.Run(*ours)) == told
