"""The simulated libcuda.so.1 and libnvidia-ml.so.1: its functions, its books, and the real programs
that must run on it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import harness
import pytest

sys.path.insert(0, str(harness.ROOT / "python"))

from gpumem._machine import simulator  # noqa: E402

DATA = Path(__file__).parent / "data"
WORKLOADS = Path(__file__).parent / "workloads"
TABLE = harness.ROOT / "simulator" / "driver" / "src" / "table"
LIBRARY = harness.BUILT / "libsimcuda.so"
OWN_EXPORTS = {
    "gpumem_sim_books", "gpumem_sim_books_by_uuid", "gpumem_sim_books_json", "gpumem_sim_calls", "gpumem_sim_take_time",
}

ROW = re.compile(r'^    (cu\w+) "(cu\w+)" (\d+) (Legacy|PerThread) ', re.MULTILINE)


def exports() -> set[str]:
    """Names of the functions that the library exports, without their version nodes."""
    listing = harness.run(["nm", "-D", "--defined-only", LIBRARY]).stdout.splitlines()
    functions = (line.split() for line in listing)
    return {name.split("@")[0] for _, kind, name in functions if kind == "T"}


def table() -> dict[str, str]:
    """Symbols of the table with their base names."""
    rows = {}
    for source in TABLE.glob("*.rs"):
        rows.update({symbol: base for symbol, base, _, _ in ROW.findall(source.read_text())})
    return rows


def books_of(path: Path, device: int = 0) -> dict:
    """The books of one device, as the simulator wrote them at exit."""
    return json.loads(path.read_text())["devices"][device]


def test_exports_are_the_table():
    assert exports() == set(table()) | OWN_EXPORTS
    assert len(table()) > 690


def test_exports_have_what_the_runtime_of_cuda_10_looks_up():
    wanted = set((DATA / "cudart10_dlsym.txt").read_text().split())
    assert len(wanted) > 250 and wanted <= exports()


@pytest.mark.parametrize(
    "check",
    ["errors", "pages", "contexts", "virtual_memory", "pools", "pointers", "forked", "shared",
     "callbacks", "check_refused"],
)
def test_driver(simulate, check):
    simulate([sys.executable, WORKLOADS / "sim_driver.py", check], memory="4GiB")


@pytest.mark.parametrize(
    "check",
    ["nodes", "captured", "capture_errors", "memory_nodes", "memory_rules", "captured_memory"],
)
def test_graphs(simulate, check):
    simulate([sys.executable, WORKLOADS / "sim_graphs.py", check], memory="4GiB")


def test_two_devices(simulate):
    command = [sys.executable, WORKLOADS / "sim_driver.py", "two_devices"]
    simulate(command, devices=2, memory="4GiB,1=3GiB")


def test_visible_devices(simulate):
    command = [sys.executable, WORKLOADS / "sim_driver.py", "visible"]
    simulate(command, devices=2, memory="4GiB,1=2GiB", env={"CUDA_VISIBLE_DEVICES": "1"})


def test_settings(simulate):
    simulate(
        [sys.executable, WORKLOADS / "sim_driver.py", "settings"],
        memory="1.5GiB",
        env={
            "GPUMEM_SIM_CC": "8.6",
            "GPUMEM_SIM_DRIVER_VERSION": "12040",
            "GPUMEM_SIM_CONTEXT_BYTES": "64MiB",
            "GPUMEM_SIM_PAGE_BYTES": "64KiB",
            "GPUMEM_SIM_OTHER_BYTES": "256MiB",
        },
    )


def test_nvml(simulate):
    command = [sys.executable, WORKLOADS / "sim_nvml.py"]
    simulate(command, devices=2, env={"GPUMEM_SIM_RESERVED_BYTES": "300MiB"})


def test_many_threads(simulate, build_c):
    """Allocations and frees of many threads at once: the books come out even."""
    client = build_c("sim_threads.c", "-ldl", "-pthread")
    assert simulate([client]).stdout == "even\n"


def test_proc_address_answers_what_real_runtimes_ask(simulate):
    lists = [DATA / "cudart12_getprocaddress.txt", DATA / "cudart13_getprocaddress.txt"]
    done = simulate([sys.executable, WORKLOADS / "sim_proc_address.py", *lists])
    resolved, missing = map(int, re.findall(r"\d+", done.stdout))
    assert resolved > 800 and missing > 50


@pytest.mark.parametrize("profile", ["cuda10", "cuda13"])
def test_real_runtime_of_cuda_10(simulate, build_c, cudart102, tmp_path, profile):
    client = build_c("sim_cudart.c", f"-L{cudart102}", "-l:libcudart.so.10.2", "-ldl",
                     f"-Wl,-rpath,{cudart102}")
    written = tmp_path / "books.json"
    done = simulate(
        [client],
        devices=2,
        memory="4GiB",
        env={"GPUMEM_SIM_PROFILE": profile, "GPUMEM_SIM_BOOKS": str(written)},
    )
    assert done.stdout.splitlines()[-1] == "all holds"
    first, second = books_of(written, 0), books_of(written, 1)
    # 4000 bytes were live when the program ended, and the greatest was the whole card but its
    # pages in use (see the client).
    assert first["driver"]["current"] == 4000
    assert first["driver"]["allocations"] == first["driver"]["frees"] + 1
    assert second["driver"] == {"current": 0, "peak": 77, "allocations": 1, "frees": 1}
    assert first["physical"]["peak"] == first["total_bytes"] == 4 << 30
    assert first["host"]["current"] == 0 and first["host"]["peak"] == 12345


def test_real_pytorch_1_12(simulate, python_env, tmp_path):
    written = tmp_path / "books-%p.json"
    done = simulate(
        [python_env("torch112"), WORKLOADS / "sim_torch112.py"],
        memory="5.5GiB",  # 1.3 GiB of it for PyTorch's modules
        env={"GPUMEM_SIM_BOOKS": str(written)},
    )
    assert "recovered" in done.stdout
    (path,) = tmp_path.glob("books-*.json")
    figures = books_of(path)
    assert figures["driver"]["peak"] == figures["kinds"]["device"]["peak"] > 10 * (256 << 20)


def test_numba_cuda(simulate, python_env):
    done = simulate([python_env("numba"), WORKLOADS / "sim_numba.py"])
    assert "arrays went there and back" in done.stdout


def test_cuda_bindings(simulate, python_env):
    done = simulate([python_env("numba"), WORKLOADS / "sim_bindings.py"])
    assert "bindings work" in done.stdout


class TestWithSimulator:
    """scripts/with-simulator itself."""

    def test_exit_codes_and_signals_are_the_commands_own(self, simulate):
        assert simulate(["sh", "-c", "exit 41"], check=False).returncode == 41
        assert simulate(["sh", "-c", "kill -TERM $$"], check=False).returncode == -15
        assert simulate(["true"]).stdout == ""

    def test_works_from_anywhere_and_keeps_arguments(self, simulate, tmp_path):
        folder = tmp_path / "a folder"
        folder.mkdir()
        done = simulate(["printf", "%s|", "a b", "", "--devices", "$HOME"], cwd=folder)
        assert (done.stdout, done.stderr) == ("a b||--devices|$HOME|", "")

    def test_a_preload_that_is_set_stays_and_comes_first(self, simulate):
        done = simulate(["sh", "-c", "echo $LD_PRELOAD"], env={"LD_PRELOAD": "libm.so.6"})
        first, *ours = done.stdout.strip().split(":")
        assert first == "libm.so.6"
        assert all("simulator-preload" in path for path in ours)

    def test_profiles(self, simulate):
        show = ["sh", "-c", "echo $GPUMEM_SIM_DRIVER_VERSION,$GPUMEM_SIM_CC,$LD_PRELOAD"]
        assert simulate(show, env={"GPUMEM_SIM_PROFILE": "cuda10"}).stdout == "10020,70,\n"
        assert simulate(show, env={"GPUMEM_SIM_PROFILE": "cuda13"}).stdout.startswith(",,")
        assert simulate(show, env={"GPUMEM_SIM_PROFILE": "x"}, check=False).returncode == 2

    def test_usage(self):
        script = [str(harness.WITH_SIMULATOR)]
        shown = subprocess.run([*script, "--help"], capture_output=True, text=True, check=False)
        assert shown.returncode == 0 and "--devices N" in shown.stdout
        for arguments in ([], ["--devices"], ["--nonsense", "true"]):
            done = subprocess.run(script + arguments, capture_output=True, text=True, check=False)
            assert done.returncode == 2 and done.stderr.count("\n") == 1

    def test_a_bad_setting_is_named_once(self, simulate):
        command = [sys.executable, WORKLOADS / "sim_driver.py", "check_refused"]
        done = simulate(command, env={"GPUMEM_SIM_CC": "many"})
        assert done.stderr.splitlines() == [
            "gpumem simulator: GPUMEM_SIM_CC=many cannot be read; using the default"
        ]


@pytest.mark.parametrize("cuda, version, profile", [
    ("10.2", "10020", "cuda10"), ("12.8", "12080", "cuda12"), ("11.8", None, "cuda13"), ("13.2", None, "cuda13"), (None, None, "cuda13"),
])  # fmt: skip
def test_the_card_suits_the_pytorch_of_a_python(cuda, version, profile, tmp_path):
    """By the CUDA that it was built for; with-simulator and gpumem run --simulate agree."""
    program = tmp_path / "bin" / "python"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "${GPUMEM_SIM_DRIVER_VERSION:-none} ${LD_LIBRARY_PATH%%:*} $LD_PRELOAD"\n')
    program.chmod(0o755)
    if cuda:
        torch = tmp_path / "lib" / "python3.12" / "site-packages" / "torch"
        torch.mkdir(parents=True)
        (torch / "version.py").write_text(f"__version__ = '2.9.0'\ncuda: str | None = '{cuda}'\n")
    launched = [sys.executable, "-m", "gpumem", "run", "-q", "--simulate", "--", program]
    package = {"PYTHONPATH": str(harness.ROOT / "python")}
    for done in (harness.run([harness.WITH_SIMULATOR, program]), harness.run(launched, env=package, cwd=tmp_path)):
        said, found, libraries = done.stdout.rstrip("\n").split(" ")
        names = {os.path.basename(path) for path in libraries.split(":") if path} - {"libgpumem.so"}
        assert said == (version or "none")
        assert names == set(simulator.PRELOADED[profile].values())
        assert {"libcuda.so", "libcuda.so.1", "libnvidia-ml.so.1"} <= set(os.listdir(found))
