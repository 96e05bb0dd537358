"""The simulated libcupti.so.13, libcufft.so.12 and libcusolver.so.12: their exports, and real PyTorch
2.15.0 on them. tests/test_sim_nccl.py has libnccl.so.2."""

from __future__ import annotations

import re
from pathlib import Path

import harness
import pytest

DATA = Path(__file__).parent / "data"
WORKLOAD = harness.WORKLOADS / "sim_libraries.py"
SIMULATOR = harness.ROOT / "simulator"
LIBRARIES = {"cupti": "libcupti.so.13", "cufft": "libcufft.so.12", "cusolver": "libcusolver.so.12"}
# The number of functions that PyTorch imports from each.
IMPORTED = {"cupti": 21, "cufft": 7, "cusolver": 135}
SAYS = "gpumem simulator: {} is not simulated and answers {}"


def exports(library: str) -> set[str]:
    """Functions that a built library exports, each with its version node."""
    built = harness.BUILT / f"libsim{library}.so"
    listing = harness.run(["nm", "-D", "--defined-only", built]).stdout.splitlines()
    functions = (line.split() for line in listing)
    return {name.replace("@@", "@") for _, kind, name in functions if kind == "T"}


def table(library: str) -> set[str]:
    """Names in the library's tables of exports."""
    names: set[str] = set()
    for path in (SIMULATOR / library / "src" / "table").glob("*.rs"):
        for row in path.read_text().splitlines():
            if row.startswith("    ") and not row.lstrip().startswith("//"):
                names.update(re.findall(rf"\b{library}[A-Z]\w+(?! *\")", row.split("=")[0].split("(")[0]))
    return names


@pytest.mark.parametrize("library", LIBRARIES)
def test_exports_are_the_tables(library):
    names = {name.split("@")[0] for name in exports(library)}
    assert names == table(library)
    assert {name.split("@")[1] for name in exports(library)} == {LIBRARIES[library]}


@pytest.mark.parametrize("library", LIBRARIES)
def test_exports_have_what_pytorch_imports(library):
    imports = set((DATA / f"torch215_{library}_imports.txt").read_text().split())
    assert len(imports) == IMPORTED[library] and imports <= exports(library)


def test_the_lists_are_pytorchs(python_env):
    packages = next(python_env("torch215").parents[1].glob("lib/python3.*/site-packages"))
    listing = harness.run(["nm", "-D", "--undefined-only", *(packages / "torch" / "lib").glob("*.so")]).stdout
    for library in (*LIBRARIES, "nccl"):
        imports = set(re.findall(rf"\bU ({library}[A-Z]\w+(?:@lib{library}\.so\.\d+)?)$", listing, re.MULTILINE))
        assert imports == set((DATA / f"torch215_{library}_imports.txt").read_text().split())


@pytest.mark.parametrize("library", LIBRARIES)
def test_no_library_needs_the_driver_at_link_time(library):
    built = harness.BUILT / f"libsim{library}.so"
    needed = re.findall(r"NEEDED.*\[(.*)\]", harness.run(["readelf", "-d", built]).stdout)
    assert needed and not any("cu" in name for name in needed)


def pytorch(simulate, python_env, checks, **options):
    """Runs checks of the workload in one process (starting it takes the longest)."""
    command = [python_env("torch215"), WORKLOAD, *checks.split()]
    done = simulate(command, **{"memory": "4GiB", **options})
    assert done.stdout.splitlines() == [f"{check} holds" for check in checks.split()]
    return done


def test_profiler_transforms_and_algebra_of_pytorch(simulate, python_env):
    done = pytorch(simulate, python_env, "profiler profiler_schedule transforms spectrogram algebra")
    assert "not simulated" not in done.stderr


def test_functions_that_are_not_simulated_say_so_once(simulate, python_env):
    done = pytorch(simulate, python_env, "fft_library statuses")
    assert [line for line in done.stderr.splitlines() if "not simulated" in line] == [
        SAYS.format("cufftXtSetGPUs", "CUFFT_NOT_SUPPORTED"),
        SAYS.format("cusolverSpCreate", "CUSOLVER_STATUS_NOT_SUPPORTED"),
    ]


@pytest.mark.parametrize(
    "level, times",
    [pytest.param("low", (0, 1, 1), marks=pytest.mark.slow), (None, (1, 1, 2048 / 1009)), ("high", (1, 2, 8))],
)
def test_work_areas_of_transforms_have_the_range_of_the_model(simulate, python_env, level, times):
    command = [python_env("torch215"), WORKLOAD, "fft_workspace"]
    done = simulate(command, memory="4GiB", env={"GPUMEM_SIM_CUFFT_WORKSPACE": level})
    found = dict(map(int, line.split()[1:]) for line in done.stdout.splitlines() if line.startswith("PEAK"))
    # PyTorch rounds a block up to 512 bytes.
    needed = {length: round(4 * 8 * length * factor) for length, factor in zip((1024, 1000, 1009), times)}
    assert found == {length: -(-size // 512) * 512 for length, size in needed.items()}


def test_a_level_that_is_none_is_named(simulate, python_env):
    command = [python_env("torch215"), WORKLOAD, "fft_workspace"]
    done = simulate(command, memory="4GiB", env={"GPUMEM_SIM_CUFFT_WORKSPACE": "some"})
    assert "GPUMEM_SIM_CUFFT_WORKSPACE=some is not low, likely or high; using likely" in done.stderr
