"""gpumem.compat: the drop-ins print what the tools printed, to the byte, with exact figures.

The checks are in tests/workloads/compat; each row here is one process that runs several modules of them on the
simulator. What breaks them: a peak that is sampled although it is known exactly, a figure of the wrong card, output
in a form that a script for the old tool cannot read."""

import json
import re

import harness
import pytest

CHECKS = harness.WORKLOADS / "compat"
PACKAGE = {"PYTHONPATH": str(harness.ROOT / "python"), "GPUMEM_QUIET": "1"}
SLOW = {"GPUMEM_SIM_ALLOCATION_US": "3000"}
PYTORCH = ("fastai_mem", "ipyexperiments_mem", "gputil", "track", "memlab")


def checked(done):
    """The checks that passed; all of them did."""
    lines = [line.split() for line in done.stdout.splitlines()]
    return [line[1] for line in lines if len(line) == 2 and line[0] == "passed"]


def checks_of(*modules):
    """The checks that modules have, in order."""
    return [
        f"{module}.{name}"
        for module in modules
        for name in re.findall(r"^def (check_\w+)", (CHECKS / f"{module}.py").read_text(), re.MULTILINE)
    ]


@pytest.mark.parametrize(
    "environment, devices, preload, slow",
    [
        ("torch215", 1, True, False),
        pytest.param("torch215", 2, False, False, marks=pytest.mark.slow),
        pytest.param("torch215", 2, True, True, marks=pytest.mark.slow),
        pytest.param("torch112", 2, True, False, marks=pytest.mark.slow),
        pytest.param("torch112", 1, True, True, marks=pytest.mark.slow),
        # Short peaks are sampled in time.
        pytest.param("torch112", 1, False, True, marks=[pytest.mark.slow, pytest.mark.alone]),
    ],
)
def test_pytorch(environment, devices, preload, slow, python_env, simulate):
    done = simulate(
        [python_env(environment), CHECKS / "run.py", *PYTORCH],
        devices=devices,
        preload=preload,
        env={**PACKAGE, **harness.SIMULATED_CARD[environment], **(SLOW if slow else {})},
    )
    passed = checked(done)
    assert passed == checks_of(*PYTORCH)
    assert "Warning" not in done.stderr


@pytest.mark.parametrize("preload", (True, False))
def test_in_ipython(preload, python_env, simulate):
    done = simulate([python_env("jupyter"), CHECKS / "run.py", "in_ipython"], preload=preload, env=PACKAGE)
    assert checked(done) == checks_of("in_ipython")


@pytest.mark.slow
@pytest.mark.parametrize("preload", (True, False))
def test_numba(preload, python_env, simulate):
    done = simulate(
        [python_env("numba"), CHECKS / "run.py", "with_numba"], devices=2, preload=preload, env=PACKAGE
    )
    assert len(checked(done)) == 3


@pytest.mark.parametrize("environment, modules", [
    ("jupyter", ["limited"]), pytest.param("torch215", ["use_torch", "limited"], marks=pytest.mark.slow),
    pytest.param("torch112", ["use_torch", "limited"], marks=pytest.mark.slow),
])
def test_little_left_of_a_limit(environment, modules, python_env, simulate):
    """Leaving 100 MB free and allocating 200 fails as documented where GPUMEM_LIMIT makes the card smaller."""
    if b"GPUMEM_LIMIT" not in harness.LIBRARY.read_bytes():
        pytest.skip("this library has no GPUMEM_LIMIT")
    env = {**PACKAGE, **harness.SIMULATED_CARD.get(environment, {}), "GPUMEM_LIMIT": "2GiB", "GPUMEM_POSTMORTEM": "off"}
    done = simulate([python_env(environment), CHECKS / "run.py", *modules], preload=True, env=env)
    assert checked(done) == ["limited.check_little_left"]


def card(number):
    return f"GPU-6770756d-656d-4000-8000-{number:012}"


def instance(number):
    return f"MIG-6770756d-656d-4000-8000-{number:04}00000000"


@pytest.mark.parametrize("environment", ("torch215", pytest.param("torch112", marks=pytest.mark.slow)))
def test_the_card_that_is_named_by_its_uuid(environment, python_env, simulate):
    """Its figures, not those of NVML's first card: the second, of another size."""
    done = simulate(
        [python_env(environment), CHECKS / "run.py", "fastai_mem"], devices=2, memory="0=16GiB,1=8GiB", preload=True,
        env={**PACKAGE, **harness.SIMULATED_CARD[environment], "CUDA_VISIBLE_DEVICES": card(1)},
    )
    assert checked(done) == checks_of("fastai_mem")


@pytest.mark.parametrize(
    "visible, settings, uuids, numbers",
    [
        (None, {}, [card(0), card(1), card(2)], "0 1 2"),
        ("2,0", {}, [card(2), card(0)], "2 0"),
        (f"{card(2)},0", {}, [card(2), card(0)], "2 0"),
        (card(1)[:-1] + "1", {}, [card(1)], "1"),
        ("1,7,0", {}, [card(1)], "1"),
        ("1,1,0", {}, [card(1)], "1"),
        ("0,-1,1", {}, [card(0)], "0"),
        ("GPU-6770", {}, [], ""),
        ("", {}, [], ""),
        ("-1", {}, [], ""),
        ("NoDevFiles", {}, [], ""),
        (None, {"GPUMEM_SIM_CC": "80,1=90"}, [card(1), card(0), card(2)], "1 0 2"),
        ("2", {"GPUMEM_SIM_CC": "80,2=90"}, [card(1)], "1"),
        ("2", {"GPUMEM_SIM_CC": "80,2=90", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, [card(2)], "2"),
        (None, {"GPUMEM_SIM_MIG": "0=2"}, [instance(1)], "0"),
        (f"{instance(2)},{instance(1)},1", {"GPUMEM_SIM_MIG": "0=2"}, [instance(2)], "0"),
        ("1,0", {"GPUMEM_SIM_MIG": "0=2"}, [card(1)], "1"),
        ("MIG-6770756d", {"GPUMEM_SIM_MIG": "0=2"}, [], ""),
    ],
)
def test_devices(visible, settings, uuids, numbers, python_env, simulate):
    """NVML's cards are CUDA's, before CUDA is started and after, whatever the variables say."""
    env = {**PACKAGE, **settings, "CUDA_VISIBLE_DEVICES": visible}
    done = simulate([python_env("py312"), CHECKS / "devices.py"], devices=3, env=env)
    assert done.stdout.split("\n") == [" ".join(uuids), " ".join(uuids), numbers, ""]


WITHOUT_A_GPU = """
import warnings
warnings.simplefilter("error")
import gpumem.compat
names = gpumem.compat.install()
assert names == list(gpumem.compat.NAMES), names
import GPUtil, gpu_mem_track, gpu_profile, ipyexperiments, modelsize_estimate, pytorch_memlab
import fastai.callbacks.mem, fastai.utils.ipython, gpumem.compat.fastai.utils.mem_older, ipyexperiments.utils.mem
from fastai.utils.mem import *
print(use_gpu, gpu_mem_get(), gpu_mem_get(0), gpu_mem_get_all(), gpu_with_max_free_mem())
print(gpu_mem_get_free(), gpu_mem_get_used_no_cache(), gpu_mem_get_used_fast(None), preload_pytorch())
print(ipyexperiments.utils.mem.gpu_mem_get_total_mbs(), GPUtil.getGPUs(), GPUtil.getAvailable())
with GPUMemTrace() as trace: pass
print(trace.data(), trace.source)
print(ipyexperiments.utils.mem.gpu_mem_allocate_mbs(1))
try: ipyexperiments.utils.mem.gpu_mem_leave_free_mbs(1)
except AssertionError as error: print(error)
@gpu_mem_restore
def fails(): raise KeyError("CUDA out of memory")
try: fails()
except KeyError as error: print(repr(error))
cells = ipyexperiments.CellLogger(compact=True)
cells.pre_run_cell(); cells.post_run_cell()
tracker = pytorch_memlab.LineProfiler(fails)
"""


@pytest.mark.parametrize("version", ("py38", "py39", "py310", "py311", "py312", "py313", "py314"))
def test_without_a_gpu_or_a_driver(version, python_env, tmp_path):
    done = harness.run([python_env(version), "-c", WITHOUT_A_GPU], env=PACKAGE, cwd=tmp_path)
    lines = done.stdout.splitlines()
    assert lines[:7] == [
        "False GPUMemory(total=0, free=0, used=0) GPUMemory(total=0, free=0, used=0) [] (None, 0)",
        "0 0 0 None",
        "0 [] []",
        "△Used Peaked MB:      0      0 (exit)",
        "(0, 0) none",
        "None",
        "already have less available mem than desired 1MBs",
    ]
    assert lines[7] == "KeyError('CUDA out of memory')"
    assert lines[8].startswith("CPU: ") and "GPU" not in lines[8]
    assert len(lines) == 9


def test_tools_that_are_installed_are_left_alone(python_env, tmp_path):
    """Unless it is forced; and then a package's other modules stay its own."""
    theirs = tmp_path / "fastai"
    (theirs / "utils").mkdir(parents=True)
    for name in ("__init__.py", "utils/__init__.py", "utils/mem.py", "utils/other.py"):
        (theirs / name).write_text("whose = 'theirs'\n")
    script = """
import gpumem.compat
print("fastai.utils.mem" in gpumem.compat.install(), "GPUtil" in gpumem.compat.install())
import fastai.utils.mem
print(fastai.utils.mem.whose)
print(gpumem.compat.install(["fastai.utils.mem"], force=True))
import fastai.utils.mem, fastai.utils.other
print(fastai.utils.mem.__name__, fastai.utils.other.whose)
try: gpumem.compat.install(["nothing"])
except ValueError as error: print(str(error)[:22])
"""
    env = {"PYTHONPATH": f"{tmp_path}:{PACKAGE['PYTHONPATH']}"}
    done = harness.run([python_env("py312"), "-c", script], env=env, cwd=tmp_path)
    assert done.stdout.splitlines() == [
        "False True", "theirs", "['fastai.utils.mem']", "gpumem.compat.fastai.utils.mem theirs", "no drop-in for nothing",
    ]


@pytest.mark.parametrize("notebook", sorted((harness.ROOT / "docs" / "coming-from").glob("*.ipynb")), ids=lambda p: p.stem)
def test_notebooks_run(notebook, python_env, simulate, tmp_path):
    """Each cell, in order; what its page shows as printed is printed."""
    cells = [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]
    sources, shown = [], []
    for cell in cells:
        sources.append("".join(cell["source"]))
        shown += ["".join(output["text"]) for output in cell["outputs"] if output["output_type"] == "stream"]
    script = tmp_path / "notebook.py"
    script.write_text("\n\n".join(sources))
    done = simulate([python_env("torch215"), script], preload=True, env=PACKAGE)
    assert done.stdout == "".join(shown)
    assert len(shown) >= 3
