"""The rank and the job of a capture: from launchers and from the program, and in the views.

What breaks these tests: numbers of another launcher's ranks, coordinates that are set before the capture and are
lost, and coordinates of meshes that replace the program's own."""

import json
import re

import harness
import pytest

QUIET = {"GPUMEM_QUIET": "1"}
PACKAGE = {**QUIET, "PYTHONPATH": str(harness.ROOT / "python")}
TRAINS = {**PACKAGE, "PYTHONPATH": f"{harness.ROOT}/python:{harness.WORKLOADS}"}
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
    summary = analyze_json("report", "--all", capture)
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
    for view in (["report", "--all"], []):
        text = analyze(*view, capture).stdout
        assert " · rank 11 of 16 · " in text and "\n".join(lines) in text
    analyze("html", capture)
    page = capture.with_suffix(".html").read_text()
    metrics = analyze("live", "--metrics", "--once", capture).stdout
    [info] = [line for line in metrics.splitlines() if line.startswith("gpumem_capture_info{")]
    wanted = (f'job_name="{process["job"]}"', f'coordinates="{given}"', 'rank="11"', 'slurm_job_id="4711"')
    assert all(label in info for label in wanted), info
    trace = json.loads(analyze("export", "perfetto", "-o", "-", capture).stdout)["traceEvents"]
    [name] = [event["args"]["name"] for event in trace if event["name"] == "process_name"]
    assert name.startswith(f"rank 11 ({given}): ")
    assert " · ".join(line.removeprefix("position").removeprefix("job").strip() for line in lines) in page


def test_a_process_of_no_job(client, simulate, analyze, analyze_json, tmp_path):
    """One line about invalid coordinates, which are left out; no other output."""
    launchers = {*TORCHRUN, *SRUN, "KUBERNETES_SERVICE_HOST", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID", "RAY_JOB_ID"}
    env = {**QUIET, "GPUMEM_COORDS": "DP=1"}
    unset = [word for name in sorted(launchers) for word in ("-u", name)]
    done = simulate(["env", *unset, *client], preload=True, env=env)
    [line] = done.stderr.splitlines()
    assert line.startswith("gpumem: GPUMEM_COORDS=DP=1: invalid value;") and "dp=1,tp=0" in line
    capture = tmp_path / "report.bin"
    assert position(analyze_json("report", "--all", capture)["process"]) == [None] * len(POSITION)
    text = analyze("report", "--all", capture).stdout
    assert "position" not in text and "job " not in text


def test_what_the_program_says(python_env, simulate, analyze_json, tmp_path):
    """By C and by Python, before there is a capture and after: the newest coordinates count, the environment's least."""
    script = (
        "import ctypes, sys\n"
        "import gpumem\n"
        "lib = ctypes.CDLL(None)\n"
        "for text in (None, b'', b'tp', b'TP=1', b'\\xff=1'):\n"
        "    assert lib.gpumem_coords(text) == 2, text\n"
        "assert lib.gpumem_coords(b'tp=5') == 0\n"
        "assert gpumem.coords(dp=1, tp=2)\n"
        "for wrong in ({}, {'TP': 1}, {'tp': -1}, {'tp': 1 << 64}, {f'd{n}': 0 for n in range(17)}):\n"
        "    try: gpumem.coords(**wrong)\n"
        "    except ValueError: continue\n"
        "    raise SystemExit(f'taken: {wrong}')\n"
        "cuda = ctypes.CDLL('libcuda.so.1')\n"
        "context, pointer = ctypes.c_void_p(), ctypes.c_uint64()\n"
        "assert cuda.cuInit(0) == 0\n"
        "assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0\n"
        "assert cuda.cuCtxSetCurrent(context) == 0\n"
        "assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(12345)) == 0\n"
        "if 'after' in sys.argv: assert gpumem.coords(pp=3)\n"
    )
    for words, said in (("before", {"dp": 1, "tp": 2}), ("after", {"pp": 3})):
        env = {**PACKAGE, "GPUMEM_COORDS": "dp=9", "GPUMEM_OUTPUT": f"{words}.bin"}
        done = simulate([python_env("py312"), "-c", script, words], preload=True, env=env)
        assert (done.stdout, done.stderr) == ("", "")
        assert analyze_json("report", "--all", tmp_path / f"{words}.bin")["process"]["coordinates"] == said
    # Without the recorder nothing is recorded, and what is wrong is still wrong.
    script = "import gpumem\nprint(gpumem.coords(dp=1))\ntry: gpumem.coords(DP=1)\nexcept ValueError: print('wrong')\n"
    done = harness.run([python_env("py38"), "-c", script], env=PACKAGE, cwd=tmp_path)
    assert done.stdout.split() == ["False", "wrong"]


@pytest.mark.parametrize("words", ("own", pytest.param("found", marks=pytest.mark.slow)))
def test_meshes_of_pytorch(words, python_env, simulate, analyze_json, tmp_path):
    """A program that makes meshes needs no more calls if it has the package; coordinates from the program's own call
    have priority."""
    script = (
        "import sys\n"
        "import gpumem, torch, winds_up\n"
        "import torch.distributed as dist\n"
        "from torch.distributed.device_mesh import DeviceMesh, init_device_mesh\n"
        "from torch.testing._internal.distributed.fake_pg import FakeStore\n"
        "dist.init_process_group('fake', store=FakeStore(), rank=5, world_size=8)\n"
        "mesh = init_device_mesh('cpu', (2, 2, 2), mesh_dim_names=('pp', 'dp', 'tp'))\n"
        "part = mesh['tp']\n"
        # Names that say two things, none that is in, and none that is a name here.
        "other = init_device_mesh('cpu', (4, 2), mesh_dim_names=('ep', 'unclear'))\n"
        "more = init_device_mesh('cpu', (1, 8), mesh_dim_names=('Big', 'unclear'))\n"
        "out = DeviceMesh('cpu', [0, 1], mesh_dim_names=('out',))\n"
        "bare = init_device_mesh('cpu', (8,))\n"
        "for wrong in (out, bare):\n"
        "    try: gpumem.coords(wrong)\n"
        "    except ValueError: continue\n"
        "    raise SystemExit('taken')\n"
        "if 'own' in sys.argv: assert gpumem.coords(mesh, ep=7)\n"
        "layer = torch.nn.Linear(4, 4, device='cuda')\n"
        "optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)\n"
        "for step in range(2):\n"
        "    layer(torch.ones(2, 4, device='cuda')).sum().backward()\n"
        "    optimizer.step()\n"
    )
    found = {"pp": 1, "dp": 0, "tp": 1, "ep": 2}
    said = {"found": found, "own": {**found, "ep": 7}}[words]
    env = {**TRAINS, "GPUMEM_OUTPUT": "report.bin", "GPUMEM_STACKS": "off"}
    simulate([python_env("torch215"), "-c", script, words], preload=True, env=env)
    assert analyze_json("report", "--all", tmp_path / "report.bin")["process"]["coordinates"] == said


@pytest.mark.slow
def test_groups_of_frameworks(python_env, simulate, analyze_json, tmp_path):
    """Megatron-LM's and DeepSpeed's own, of a rank in a world of 16."""
    begin = (
        "import gpumem, torch, winds_up\n"
        "import torch.distributed as dist\n"
        "from torch.testing._internal.distributed.fake_pg import FakeStore\n"
        "dist.init_process_group('fake', store=FakeStore(), rank=11, world_size=16)\n"
    )
    megatron = (
        "from megatron.core import parallel_state\n"
        "parallel_state.initialize_model_parallel(2, 2, context_parallel_size=2, expert_model_parallel_size=2,\n"
        "                                         create_gloo_process_groups=False)\n"
        "ranks = {'tp': parallel_state.get_tensor_model_parallel_rank(), 'pp': parallel_state.get_pipeline_model_parallel_rank(),\n"
        "         'cp': parallel_state.get_context_parallel_rank(), 'ep': parallel_state.get_expert_model_parallel_rank(),\n"
        "         'dp': parallel_state.get_data_parallel_rank()}\n"
    )
    deepspeed = (
        "import deepspeed\n"
        "from deepspeed.runtime.pipe.topology import PipelineParallelGrid, PipeModelDataParallelTopology\n"
        "from deepspeed.utils import groups\n"
        "deepspeed.init_distributed()\n"
        "grid = PipelineParallelGrid(topology=PipeModelDataParallelTopology(num_pp=4, num_mp=2, num_dp=2))\n"
        "groups._create_expert_and_data_parallel(expert_parallel_size_=2)\n"
        "ranks = {'pp': grid.get_stage_id(), 'dp': grid.get_data_parallel_rank(), 'tp': grid.get_slice_parallel_rank(),\n"
        "         'ep': groups._get_expert_parallel_rank('ep_size_2')}\n"
    )
    end = (
        "layer = torch.nn.Linear(4, 4, device='cuda')\n"
        "optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)\n"
        "layer(torch.ones(2, 4, device='cuda')).sum().backward()\n"
        "optimizer.step()\n"
        "import json\n"
        "print(json.dumps(ranks))\n"
    )
    for name, made in (("megatron", megatron), ("deepspeed", deepspeed)):
        env = {**TRAINS, "GPUMEM_OUTPUT": f"{name}.bin", "GPUMEM_STACKS": "off"}
        done = simulate([python_env("programs"), "-W", "ignore", "-c", begin + made + end], preload=True, env=env)
        said = json.loads(done.stdout.splitlines()[-1])
        assert analyze_json("report", "--all", tmp_path / f"{name}.bin")["process"]["coordinates"] == said
        assert len({*said.values()}) > 1 and len(said) >= 4
