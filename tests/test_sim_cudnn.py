"""The simulated libcudnn.so.9: its exports, its calls, and real PyTorch 2.15.0 with cuDNN on. docs/cudnn.md has the
model of its requests. Here it is compared with the figures of NVIDIA's cuDNN 7.6.5, which is part of PyTorch 1.12.1."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import harness
import pytest

DATA = Path(__file__).parent / "data"
CALLS = harness.WORKLOADS / "sim_cudnn_calls.py"
CHECKS = harness.WORKLOADS / "sim_cudnn.py"
SIZES = harness.WORKLOADS / "sim_cudnn_sizes.py"
MIB = 1 << 20


def exports() -> set[str]:
    """Functions that the built library exports, each with its version node."""
    listing = harness.run(["nm", "-D", "--defined-only", harness.BUILT / "libsimcudnn.so"]).stdout
    functions = (line.split() for line in listing.splitlines())
    return {name.replace("@@", "@") for _, kind, name in functions if kind == "T"}


def test_exports_are_those_of_nvidias():
    names = set((DATA / "cudnn926_names.txt").read_text().split())
    assert len(names) == 239 and exports() == {f"{name}@libcudnn.so.9" for name in names}


def test_nothing_that_pytorch_2_15_imports_is_left_out():
    imports = set((DATA / "torch215_cudnn_imports.txt").read_text().split())
    table = (harness.ROOT / "simulator/cudnn/src/table/unsupported.rs").read_text()
    refused = {f"{name}@libcudnn.so.9" for name in re.findall(r"\bcudnn[A-Z]\w+", table)}
    assert len(imports) == 84 and imports <= exports() and len(refused) == 124
    assert not imports & refused


def test_the_lists_are_those_of_the_environment(python_env):
    packages = next(python_env("torch215").parents[1].glob("lib/python3.*/site-packages"))
    libraries = [*(packages / "torch" / "lib").glob("libtorch*.so")]
    listing = harness.run(["nm", "-D", "--undefined-only", *libraries]).stdout
    imports = set(re.findall(r"\bU (cudnn\w+@libcudnn\.so\.9)", listing))
    assert imports == set((DATA / "torch215_cudnn_imports.txt").read_text().split())
    real = packages / "nvidia" / "cudnn" / "lib" / "libcudnn.so.9"
    names = {line.split()[-1] for line in harness.run(["nm", "-D", "--defined-only", real]).stdout.splitlines()}
    listed = set((DATA / "cudnn926_names.txt").read_text().split())
    assert {name.split("@")[0] for name in names if name.startswith("cudnn")} == listed


def test_it_needs_nothing_of_cuda_at_link_time():
    built = harness.BUILT / "libsimcudnn.so"
    needed = re.findall(r"NEEDED.*\[(.*)\]", harness.run(["readelf", "-d", built]).stdout)
    assert needed and not any("cud" in name for name in needed)


@pytest.mark.parametrize("check", ["executions", "captures", "dropout_states"])
def test_calls(simulate, check):
    done = simulate([sys.executable, CALLS, check])
    assert (done.stdout, done.stderr) == (f"{check} holds\n", "")


def test_what_is_not_simulated_says_so_once(simulate):
    lines = simulate([sys.executable, CALLS, "unsupported"]).stderr.splitlines()
    says = "gpumem simulator: {} is not simulated: it returns CUDNN_STATUS_NOT_SUPPORTED"
    assert lines == [says.format("cudnnOpTensor"), says.format("cudnnRNNSetClip_v9")]


def test_without_a_driver_there_is_no_handle():
    folder = harness.SIMULATOR_PRELOAD
    harness.simulate(["true"])
    done = harness.run([sys.executable, CALLS, "no_driver"], env={"LD_LIBRARY_PATH": str(folder)})
    assert done.stdout == "no_driver holds\n"


@pytest.mark.parametrize(
    "checks",
    ["captures convolutions channels_last benchmark deterministic fusions batch_norm",
     "recurrent attention ctc sampler", "residual captured_step"],
)
def test_pytorch(simulate, python_env, checks):
    done = simulate([python_env("torch215"), CHECKS, *checks.split()], memory="4GiB", timeout=580)
    assert done.stdout.splitlines() == [f"{check} holds" for check in checks.split()]
    assert "gpumem simulator" not in done.stderr, "everything that PyTorch calls is simulated"


def case(*arguments, **env):
    """A case of tests/workloads/sim_cudnn_sizes.py."""
    names = {"workspace": "GPUMEM_SIM_CUDNN_WORKSPACE", "older": "TORCH_CUDNN_V8_API_DISABLED", "limit": "CUDNN_CONV_WSCAP_DBG"}
    return json.dumps([arguments, {names[name]: value for name, value in sorted(env.items())}])


BENCHMARK = ((), ("--benchmark",))
CASES = [
    case("convolutions"),
    *(case("convolutions", *options, workspace=size) for options in BENCHMARK for size in ("0", "3000001")),
    *(case("convolutions", *options, older="1", **size) for options in BENCHMARK for size in ({}, {"workspace": "3MiB"})),
    case("convolutions", workspace="high"), case("convolutions", workspace="64MiB", limit="2"),
    *(case("training", **size) for size in ({}, {"workspace": "0"}, {"workspace": "1GiB"})),
    *(case("training", *options, workspace=size) for options in BENCHMARK for size in ("5MiB", "32GiB")),
    case("recurrent"), *(case("recurrent", workspace=size) for size in ("model", "0", "700001")),
]


def told(python_env, environment, cases):
    """What the workload prints of cases."""
    command = [python_env(environment), SIZES, f"[{','.join(cases)}]"]
    done = harness.simulate(command, memory="2GiB", env=harness.SIMULATED_CARD[environment], timeout=580)
    return dict(zip(cases, map(json.loads, done.stdout.splitlines()), strict=True)), done


@pytest.fixture(scope="module")
def sizes(python_env):
    """sizes("convolutions", workspace="0") is what PyTorch 2.15 requests; all of CASES run in forks of one process."""
    found, _ = told(python_env, "torch215", CASES)
    return lambda *arguments, **env: found[case(*arguments, **env)]


def model(name, x, w, y):
    """The workspaces of the three passes, as in docs/cudnn.md."""
    copies = 0 if name.startswith("nhwc") else x + w + y
    return [copies, copies, copies + 2 * w]


def test_workspaces_are_those_of_the_model(sizes):
    found = sizes("convolutions")
    assert len(found) == 6
    for name, (x, w, y, *passes) in found.items():
        assert passes == model(name, x, w, y), name


BOTH = pytest.mark.parametrize("options", [[], ["--benchmark"]], ids=["heuristics", "benchmark"])


@BOTH
def test_a_set_workspace_is_asked_for_to_the_byte(sizes, options):
    for setting, workspace in (("0", 0), ("3000001", 3_000_001)):
        found = sizes("convolutions", *options, workspace=setting)
        assert {tuple(passes) for _, _, _, *passes in found.values()} == {(workspace,) * 3}, setting


@BOTH
def test_the_older_interface_asks_for_the_same(sizes, options):
    assert sizes("convolutions", *options, older="1") == sizes("convolutions")
    set_ = sizes("convolutions", *options, workspace="3MiB", older="1")
    assert {tuple(passes) for _, _, _, *passes in set_.values()} == {(3 * MIB,) * 3}


def test_the_upper_end_of_the_range(sizes):
    for _, (x, w, y, *passes) in sizes("convolutions", workspace="high").items():
        assert passes == [4 * (x + w + y)] * 3


def test_cudnns_own_limit_is_kept(sizes):
    found = sizes("convolutions", workspace="64MiB", limit="2")
    assert {tuple(passes) for _, _, _, *passes in found.values()} == {(2 * MIB,) * 3}


def test_a_setting_that_cannot_be_read_is_told(python_env, sizes):
    lots = case("training", workspace="lots")
    found, done = told(python_env, "torch215", [lots])
    lines = [line for line in done.stderr.splitlines() if "gpumem simulator" in line]
    assert lines == ["gpumem simulator: GPUMEM_SIM_CUDNN_WORKSPACE=lots is neither model, high nor a size: the model is used"]
    assert found[lots] == sizes("training")


@BOTH
def test_a_workspace_beyond_the_card_falls_back_to_the_second_plan(sizes, options):
    """The peak is that of a run without workspaces; what fits is used."""
    none, some = (sizes("training", workspace=setting) for setting in ("0", "1GiB"))
    assert sizes("training", *options, workspace="32GiB") == none < 1 << 30 < some


def test_benchmark_always_chooses_the_first_plan(sizes):
    """However busy the machine is: the second one is a simulated second slower."""
    assert sizes("training", "--benchmark", workspace="5MiB") == sizes("training", workspace="5MiB")


def test_recurrent_sizes_are_those_of_nvidias_cudnn_7(python_env, sizes):
    """Reserves to the byte; workspaces too, where PyTorch 1.12 reports them: above a MiB it counts whole blocks."""
    theirs, _ = told(python_env, "torch112", [case("recurrent")])
    ours, [theirs] = sizes("recurrent"), theirs.values()
    assert [reserve for reserve, _ in ours] == [reserve for reserve, _ in theirs]
    small = [(mine, real) for (_, mine), (_, real) in zip(ours, theirs) if real < MIB]
    assert len(small) >= 7 and all(mine == real for mine, real in small), small
    assert all(mine <= real for (_, mine), (_, real) in zip(ours, theirs))


def test_recurrent_workspaces_can_be_set_and_reserves_cannot(sizes):
    model_, none, some = (
        sizes("recurrent", workspace=setting) for setting in ("model", "0", "700001")
    )
    assert [reserve for reserve, _ in model_] == [reserve for reserve, _ in none] == [reserve for reserve, _ in some]
    assert {workspace for _, workspace in none} == {0} and {workspace for _, workspace in some} == {700_001}


LINES = """\
import torch

conv = torch.nn.Conv2d(8, 8, 3, padding=1, bias=False, device="cuda")
image = torch.empty(4, 8, 64, 64, device="cuda")
with torch.no_grad():
    output = conv(image)  # the workspace
torch.cuda.synchronize()
print(torch.cuda.max_memory_allocated())
"""


def test_the_recorder_gives_the_workspace_to_the_users_line(simulate, python_env, tmp_path, analyze_json):
    script = tmp_path / "lines.py"
    script.write_text(LINES)
    env = {"GPUMEM_SIM_CUDNN_WORKSPACE": "64MiB"}
    done = simulate([python_env("torch215"), script], preload=True, env=env)
    report = tmp_path / "report.bin"
    summary = analyze_json("report", "--all", report)
    weight, image = 8 * 8 * 9 * 4, 4 * 8 * 64 * 64 * 4
    weight = -(-weight // 512) * 512
    assert summary["exact"] is True
    peak = harness.device_of(summary)["tensor"]["peak_bytes"]
    assert peak == int(done.stdout.split()[-1]) == weight + 2 * image + 64 * MIB
    rows = {row["line"]: row["bytes"] for row in analyze_json("lines", "--at", "peak", report)}
    assert rows == {3: weight, 4: image, 6: image + 64 * MIB}
    (ledger,) = analyze_json("ledger", "--at", "end", report)
    code = [row["bytes"] for row in ledger["rows"] if row["name"] == "kernels of libcudnn.so.9"]
    assert code == [2 * MIB]
