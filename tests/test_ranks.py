"""Which rank of which job a capture is of: what launchers say, and how it is shown.

What breaks these tests: numbers of another launcher's ranks."""

import re

import pytest

QUIET = {"GPUMEM_QUIET": "1"}
TORCHRUN = {
    "RANK": "11", "WORLD_SIZE": "16", "LOCAL_RANK": "3", "GROUP_RANK": "1",
    "TORCHELASTIC_RUN_ID": "run-7", "TORCHELASTIC_RESTART_COUNT": "2",
}
# One task a node, below which torchrun starts the ranks.
SRUN = {
    "SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_LOCALID": "0", "SLURM_NODEID": "1",
    "SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "5", "SLURM_RESTART_COUNT": "1",
}
POSITION = ("rank", "world_size", "local_rank", "node_rank", "coordinates", "job", "restarts", "requeues")


@pytest.fixture(scope="module")
def client(build_c):
    return [build_c("hook_lookup.c", "-ldl"), "handle"]


def position(process):
    return [process[key] for key in POSITION]


def test_what_launchers_say(client, simulate, analyze, analyze_json, tmp_path):
    """In the capture, in JSON, and in text of at most 80 columns, which the report and the page begin with."""
    dimensions = {name: 10_000 + number for number, name in enumerate(("dp_replicate", "dp_shard", "cp", "tp", "ep", "pp"))}
    given = ",".join(f"{name}={number}" for name, number in dimensions.items())
    simulate(client, preload=True, env={**QUIET, **TORCHRUN, **SRUN, "GPUMEM_COORDS": given})
    capture = tmp_path / "report.rank11.bin"
    summary = analyze_json("summary", capture)
    process = summary["process"]
    assert position(process) == [11, 16, 3, 1, dimensions, "torchrun:run-7 slurm:4711", 2, 1]
    assert list(process["coordinates"]) == list(dimensions)
    assert re.fullmatch(r"GPU-[0-9a-f-]{36}", summary["devices"][0]["uuid"])
    lines = [
        "position     local rank 3 · node 1 · dp_replicate 10000 · dp_shard 10001",
        "             cp 10002 · tp 10003 · ep 10004 · pp 10005",
        "job          torchrun:run-7 · slurm:4711 · restart 2 · requeue 1",
    ]
    assert max(map(len, lines)) <= 80
    for view in (["summary"], []):
        text = analyze(*view, capture).stdout
        assert " · rank 11 of 16 · " in text and "\n".join(lines) in text
    analyze("html", capture)
    page = capture.with_suffix(".html").read_text()
    assert " · ".join(line.removeprefix("position").removeprefix("job").strip() for line in lines) in page


def test_a_process_of_no_job(client, simulate, analyze, analyze_json, tmp_path):
    """One line about coordinates that are none, which are left out; nothing else is said."""
    launchers = {*TORCHRUN, *SRUN, "KUBERNETES_SERVICE_HOST", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID", "RAY_JOB_ID"}
    env = {**QUIET, "GPUMEM_COORDS": "DP=1"}
    unset = [word for name in sorted(launchers) for word in ("-u", name)]
    done = simulate(["env", *unset, *client], preload=True, env=env)
    [line] = done.stderr.splitlines()
    assert line.startswith("gpumem: GPUMEM_COORDS=DP=1: not a value of it") and "dp=1,tp=0" in line
    capture = tmp_path / "report.bin"
    assert position(analyze_json("summary", capture)["process"]) == [None] * len(POSITION)
    text = analyze("summary", capture).stdout
    assert "position" not in text and "job " not in text
