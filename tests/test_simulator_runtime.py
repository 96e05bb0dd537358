"""The simulated libcudart.so.13, libcublas.so.13 and libcublasLt.so.13: their exports, C programs, and
real PyTorch 2.15.0 on them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import harness
import pytest

DATA = Path(__file__).parent / "data"
WORKLOADS = Path(__file__).parent / "workloads"
SIMULATOR = harness.ROOT / "simulator"
LIBRARIES = {"cudart": "libcudart.so.13", "cublas": "libcublas.so.13", "cublaslt": "libcublasLt.so.13"}
EXPANDABLE = {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}
ASYNCHRONOUS = {"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"}


def exports(library: str) -> set[str]:
    """Functions that a built library exports, each with its version node."""
    built = harness.BUILT / f"libsim{library}.so"
    listing = harness.run(["nm", "-D", "--defined-only", built]).stdout.splitlines()
    functions = (line.split() for line in listing)
    return {name.replace("@@", "@") for _, kind, name in functions if kind == "T"}


def table(library: str) -> set[str]:
    """Names in the library's tables of exports."""
    source = SIMULATOR / library / "src"
    tables = [source / "table.rs"] if library == "cublaslt" else (source / "table").glob("*.rs")
    prefix = r"_*cuda[A-Z]\w+" if library == "cudart" else r"cublas\w+"
    rows = (line for path in tables for line in path.read_text().splitlines())
    names = set()
    for row in rows:
        if row.startswith("    ") and not row.lstrip().startswith(("//", "use ")):
            names.update(re.findall(rf"\b{prefix}\b(?!::|/)", row.split("=")[0].split("(")[0]))
    return names


def wanted(node: str, *lists: str) -> set[str]:
    """What the lists name of one library; a name without a version node is cudart's."""
    lines = (line for name in lists for line in (DATA / name).read_text().split())
    versioned = (line if "@" in line else f"{line}@libcudart.so.13" for line in lines)
    return {line for line in versioned if line.endswith(f"@{node}")}


@pytest.mark.parametrize("library", LIBRARIES)
def test_exports_are_the_tables(library):
    names = {name.split("@")[0] for name in exports(library)}
    assert names == table(library)
    assert {name.split("@")[1] for name in exports(library)} == {LIBRARIES[library]}


@pytest.mark.parametrize("library", LIBRARIES)
def test_exports_have_what_pytorch_2_15_imports(library):
    imports = wanted(
        LIBRARIES[library], "torch215_cudart_imports.txt", "torch215_cublas_imports.txt"
    )
    assert len(imports) >= 16 and imports <= exports(library)


def test_exports_have_what_every_library_of_the_environment_imports(python_env):
    """NVIDIA's own cuBLAS aside, which ours replaces and which uses functions of cuBLASLt that are
    not public."""
    packages = next(python_env("torch215").parents[1].glob("lib/python3.*/site-packages"))
    libraries = [
        path
        for folder in ("torch", "nvidia", "triton")
        for path in (packages / folder).rglob("*.so*")
        if re.search(r"\.so(\.\d+)*$", path.name) and not path.name.startswith("libcublas")
    ]
    assert len(libraries) > 40
    listing = harness.run(["nm", "-D", "--undefined-only", *libraries]).stdout
    imports = set(re.findall(r"\bU (\w+@lib(?:cudart|cublas|cublasLt)\.so\.13)", listing))
    provided = set().union(*(exports(library) for library in LIBRARIES))
    # The interface without handles, which only NVBLAS uses.
    missing = {name for name in imports - provided if not name.startswith("cublasXt")}
    assert len(imports) > 250 and not missing


def test_no_library_needs_the_driver_at_link_time():
    for library in LIBRARIES:
        built = harness.BUILT / f"libsim{library}.so"
        needed = re.findall(r"NEEDED.*\[(.*)\]", harness.run(["readelf", "-d", built]).stdout)
        assert needed and not any("cuda" in name or "cublas" in name for name in needed)


@pytest.fixture
def client(build_c):
    """The C client of the runtime, which finds libcudart.so.13 as any program does."""
    return build_c(
        "sim_runtime.c",
        harness.BUILT / "libsimcudart.so",
        harness.BUILT / "libsimcublas.so",
        "-ldl",
        "-lpthread",
    )


@pytest.mark.parametrize(
    "check",
    ["errors", "memory", "pitched", "arrays", "copies", "kernels", "entry_points", "pools",
     "pointers", "streams", "graphs", "reset", "threads", "blas", "properties", "shared",
     "forked"],
)
def test_c_program(simulate, client, check):
    done = simulate([client, check], devices=2, memory="4GiB")
    assert done.stdout == f"{check} holds\n"


def test_c_program_without_a_device(simulate, client):
    done = simulate([client, "no_device"], devices=0)
    assert done.stdout == "no_device holds\n"


def test_c_program_without_a_driver(client):
    """The libraries are found, libcuda.so.1 is not."""
    folder = harness.SIMULATOR_PRELOAD
    harness.simulate(["true"])
    done = harness.run([client, "no_driver"], env={"LD_LIBRARY_PATH": str(folder)})
    assert done.stdout == "no_driver holds\n"


def test_books_of_a_c_program(simulate, client, tmp_path):
    written = tmp_path / "books.json"
    simulate([client, "memory"], memory="4GiB", devices=2, env={"GPUMEM_SIM_BOOKS": str(written)})
    books = json.loads(written.read_text())["devices"][0]
    assert books["driver"]["current"] == 0 and books["host"]["current"] == 0
    assert books["driver"]["peak"] == 1_000_000 + 77
    assert books["host"]["peak"] == 12_345


def test_workspace_of_cublas_is_set_by_the_environment(simulate, client, tmp_path):
    for setting, workspace in (("3MiB", 3 << 20), ("0", 0)):
        written = tmp_path / f"{setting}.json"
        env = {"GPUMEM_SIM_BOOKS": str(written), "GPUMEM_SIM_CUBLAS_BYTES": setting}
        simulate([client, "blas_only"], env=env)
        driver = json.loads(written.read_text())["devices"][0]["driver"]
        assert (driver["current"], driver["peak"]) == (0, workspace)


def pytorch(simulate, python_env, checks, **options):
    """Runs checks of the PyTorch workload in one process (starting it takes the longest)."""
    command = [python_env("torch215"), WORKLOADS / "sim_torch215.py", *checks.split()]
    done = simulate(command, **{"memory": "4GiB", **options})
    assert done.stdout.splitlines() == [f"{check} holds" for check in checks.split()]


@pytest.mark.parametrize(
    "checks",
    ["start figures pinned round_trips layers attention training streams threads",
     "snapshot exhaustion"],
)
def test_pytorch(simulate, python_env, checks):
    pytorch(simulate, python_env, checks)


def test_pytorch_shares_tensors_between_processes(simulate, python_env):
    command = [python_env("torch215"), WORKLOADS / "sim_torch215_share.py"]
    done = simulate(command, memory="4GiB")
    assert done.stdout == "the child saw [0, 1, 2, 3, 4] and owned 0 bytes\n"


@pytest.mark.slow
def test_pytorch_with_expandable_segments(simulate, python_env):
    pytorch(simulate, python_env, "expandable round_trips training streams", env=EXPANDABLE)


@pytest.mark.slow
def test_pytorch_with_cuda_malloc_async(simulate, python_env):
    pytorch(simulate, python_env, "asynchronous round_trips training streams", env=ASYNCHRONOUS)


def test_pytorch_graphs(simulate, python_env):
    pytorch(simulate, python_env, "graphs graphed_callables")


@pytest.mark.slow
def test_pytorch_graphs_with_cuda_malloc_async(simulate, python_env):
    checks = "graphs_asynchronous graphed_callables"
    pytorch(simulate, python_env, checks, env=ASYNCHRONOUS)


@pytest.mark.slow
def test_pytorch_on_two_devices(simulate, python_env):
    pytorch(simulate, python_env, "two_devices training", devices=2)


@pytest.mark.slow
def test_pytorch_with_expandable_segments_on_two_devices(simulate, python_env):
    pytorch(simulate, python_env, "training", devices=2, env=EXPANDABLE)
