"""The simulated libraries of CUDA 12: those of CUDA 13 under other names. tests/test_other_torches.py runs releases
of PyTorch on them.

What breaks these tests: a missing function that PyTorch imports, a version of CUDA 13's, a function that is called
with CUDA 12's parameters and reads them as CUDA 13's."""

import json
import sys
from pathlib import Path

import harness
import pytest

sys.path.insert(0, str(harness.ROOT / "python"))

from gpumem._machine import simulator  # noqa: E402

DATA = Path(__file__).parent / "data"
# By the name that clients look for: the file that cargo makes.
LIBRARIES = {name: harness.BUILT / built for built, name in simulator.PRELOADED["cuda12"].items()}
VERSIONS = {
    "cudaRuntimeGetVersion": 12080, "cudaDriverGetVersion": 12080, "cufftGetVersion": 11303, "cusolverGetVersion": 11703,
    "cuptiGetVersion": 26, "cublasGetVersion": 120804, "cublasLtGetVersion": 120804, "cublasLtGetCudartVersion": 12080,
}  # fmt: skip


def exports(library):
    """Functions, each with its version."""
    listing = harness.run(["nm", "-D", "--defined-only", library]).stdout.splitlines()
    return {line.split()[-1].replace("@@", "@") for line in listing if line.split()[-2] == "T"}


def test_exports_have_what_pytorch_imports():
    imports = set((DATA / "torch_cuda12_imports.txt").read_text().split())
    assert {name.partition("@")[2] for name in imports} == {"", *LIBRARIES} - {"libnccl.so.2"}
    provided = set().union(*(exports(library) for library in LIBRARIES.values()))
    assert len(imports) > 500 and not imports - provided


@pytest.mark.parametrize(
    ("twelve", "thirteen", "more"),
    [
        ("libsimcublas12.so", "libsimcublas.so", set()), ("libsimcublaslt12.so", "libsimcublaslt.so", set()),
        ("libsimcufft11.so", "libsimcufft.so", set()), ("libsimcusolver11.so", "libsimcusolver.so", set()),
        ("libsimcupti12.so", "libsimcupti.so", set()),
        ("libsimcudart12.so", "libsimcudart.so",
         {"cudaGetDeviceProperties_v2", "cudaStreamGetCaptureInfo_v2", "cudaStreamGetCaptureInfo_v3"}),
    ],
)  # fmt: skip
def test_functions_are_those_of_cuda_13(twelve, thirteen, more):
    names = [{export.split("@")[0] for export in exports(harness.BUILT / library)} for library in (twelve, thirteen)]
    assert names[0] == names[1] | more


def test_they_are_of_cuda_12(simulate):
    """Versions, and functions whose parameters are others than in CUDA 13."""
    done = simulate([sys.executable, harness.WORKLOADS / "sim_cuda12.py"], env={"GPUMEM_SIM_PROFILE": "cuda12"})
    assert json.loads(done.stdout) == VERSIONS


@pytest.mark.parametrize(
    ("release", "cuda", "why"),
    [
        ("2.15.0+cu132", "13.2", None),
        ("2.4.0+cu121", "12.1", None),
        ("2.3.1+cu121", "12.1", "its PyTorch 2.3 was built for CUDA 12.1 and cuDNN 8."),
        ("2.7.1+cu118", "11.8", "its PyTorch 2.7 was built for CUDA 11.8."),
        ("1.12.1", "10.2", "its PyTorch 1.12 was built for CUDA 10.2."),
        ("2.9.1+cpu", None, None),
    ],
)
def test_a_pytorch_without_libraries_is_refused(release, cuda, why, tmp_path):
    torch = tmp_path / "lib" / "python3.12" / "site-packages" / "torch"
    torch.mkdir(parents=True)
    (torch / "version.py").write_text(f"__version__ = '{release}'\ncuda: Optional[str] = {cuda!r}\n")
    (tmp_path / "bin").mkdir()
    said = simulator.refusal(str(tmp_path / "bin" / "python"))
    assert (said is None) if why is None else said.startswith(f"{why} The simulated card has the libraries of CUDA 12 and 13")
