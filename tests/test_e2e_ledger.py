"""The ledger of real PyTorch, with each of its allocators and under CUDA graphs: at the peak its sum equals NVML's
figure at that time, and no bytes are unexplained.

What breaks these tests: a part of the driver's memory that is counted twice or not at all, a context or a module
whose memory is not measured, a reading that is used for another moment."""

import json

import harness
import pytest
from lanes import lanes

MODES = {
    "native": ((), {}),
    "expandable": ((), {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),
    "async": ((), {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}),
    "graphs": (("--graphs",), {}),
    "graphs-async": (("--graphs",), {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}),
}


def reading(done):
    """What the workload printed of NVML."""
    line = next(line for line in done.stdout.splitlines() if line.startswith("READING "))
    return json.loads(line[len("READING ") :])


# The last of all has what the two others before it have.
@pytest.mark.parametrize("mode", lanes(MODES, ("native", "graphs-async")))
def test_the_ledger_at_the_peak_is_nvmls_figure(mode, python_env, simulate, tmp_path, analyze_json):
    arguments, env = MODES[mode]
    done = simulate(
        [python_env("torch215"), harness.WORKLOADS / "peak_reading.py", *arguments],
        preload=True, env={"GPUMEM_SIM_RESERVED_BYTES": "300MiB", **env},
    )
    said = reading(done)
    report = tmp_path / "report.bin"
    (ledger,) = analyze_json("ledger", report)
    assert ledger["unexplained_bytes"] == 0, ledger
    assert ledger["nvml_process_bytes"] == said["process"]
    assert ledger["nvml_used_bytes"] == said["used"]
    assert ledger["bytes"] == said["used"] == sum(row["bytes"] for row in ledger["rows"])
    assert ledger["driver_reserved_bytes"] == 300 << 20
    assert ledger["other_processes_bytes"] == said["others"] == 0
    assert analyze_json("report", "--all", report)["exact"] is True
