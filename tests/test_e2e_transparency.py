"""The library has no visible effect: same output, same exit code, no trace in programs without CUDA.

What breaks these tests: a print in a hook, an exit code taken over by gpumem's exit handler, an error code changed
or a pending CUDA error cleared, opening the capture before the first CUDA call, or a constructor that prints."""

import os
import re
from pathlib import Path

import harness
import pytest

CUDART_CLIENT_ENDINGS = {"0": 0, "5": 5, "leak": 0, "abort": -6, "segv": -11}
FAILURES = {"raise": 1, "exit": 7, "abort": -6, "memory": 1, "recover": 0}
POINTERS = re.compile(r"0x[0-9a-f]{6,}")


def both_ways(run, folder, command, env=None):
    """Runs a command without and with the library, each in a separate folder. `run` is harness.simulate or the like."""
    runs = []
    for name, preload in (("without", False), ("with", True)):
        (folder / name).mkdir()
        env = {"GPUMEM_QUIET": "1", **(env or {})}
        runs.append(run(command, preload=preload, env=env, cwd=folder / name, check=False))
    return runs


@pytest.fixture
def in_forks(forks):
    """in_forks("torch215") runs programs as harness.simulate does, with a PyTorch that is already imported."""
    return lambda environment: lambda command, preload=False, **options: forks(environment, preload).run(command, **options)


def same(without, recorded):
    assert recorded.returncode == without.returncode, harness.described(recorded)
    assert recorded.stdout == without.stdout
    assert POINTERS.sub("0x…", recorded.stderr) == POINTERS.sub("0x…", without.stderr)


@pytest.mark.parametrize("ending", CUDART_CLIENT_ENDINGS)
def test_a_c_client_of_the_real_cudart(ending, simulate, build_c, cudart102, tmp_path):
    library = cudart102 / "libcudart.so.10.2"
    client = build_c("cudart_client.c", library, f"-Wl,-rpath,{cudart102}")
    without, recorded = both_ways(simulate, tmp_path, [client, ending], harness.CUDA_10)
    assert "given back: all" in without.stdout or ending == "leak"
    assert without.returncode == CUDART_CLIENT_ENDINGS[ending], harness.described(without)
    same(without, recorded)
    assert (tmp_path / "with" / "report.bin").is_file()
    assert not (tmp_path / "without" / "report.bin").exists()


@pytest.mark.parametrize("script", ("numba_vectors.py", "bindings_client.py"))
def test_clients_of_the_driver(script, simulate, python_env, tmp_path):
    without, recorded = both_ways(
        simulate, tmp_path, [python_env("numba"), harness.WORKLOADS / script]
    )
    assert without.returncode == 0, harness.described(without)
    same(without, recorded)
    assert (tmp_path / "with" / "report.bin").is_file()


@pytest.mark.parametrize("environment", ("torch215", "torch112"))
def test_a_training(environment, in_forks, tmp_path):
    command = [harness.WORKLOADS / "train.py", "--steps", "2", "--batch", "8"]
    without, recorded = both_ways(in_forks(environment), tmp_path, command)
    assert without.returncode == 0, harness.described(without)
    same(without, recorded)


@pytest.mark.parametrize("how", FAILURES)
def test_programs_that_fail(how, in_forks, tmp_path, analyze):
    without, recorded = both_ways(in_forks("torch215"), tmp_path, [harness.WORKLOADS / "failing.py", how])
    assert without.returncode == FAILURES[how], harness.described(without)
    same(without, recorded)
    analyze("check", tmp_path / "with" / "report.bin")


def test_the_one_line_at_exit(in_forks, tmp_path):
    """Without GPUMEM_QUIET exactly one line more on stderr, which names the file and the command."""
    without, recorded = both_ways(
        in_forks("torch215"), tmp_path, [harness.WORKLOADS / "failing.py", "exit"], {"GPUMEM_QUIET": None}
    )
    more = [line for line in recorded.stderr.splitlines() if line not in without.stderr.splitlines()]
    assert len(more) == 1, recorded.stderr
    assert "report.bin" in more[0] and "gpumem-analyze" in more[0]


NO_CUDA = {
    "true": ["true"],
    "ls": ["ls", "/"],
    "bash": ["bash", "-c", "echo hello; exit 3"],
    "python": ["python", "-c", "pass"],
    "git": ["git", "status", "--short"],
    "200 children": ["sh", "-c", "i=0; while [ $i -lt 200 ]; do (exit 0) & i=$((i+1)); done; wait; echo all"],
    "a pipe of programs": ["bash", "-c", "seq 1000 | sort -rn | head -n 1"],
}


@pytest.mark.parametrize("program", NO_CUDA)
def test_programs_without_cuda_leave_no_trace(program, tmp_path, python_env):
    command = NO_CUDA[program]
    if command[0] == "python":
        command = [python_env("torch215"), *command[1:]]
    if command[0] == "git":
        harness.run(["git", "init", "--quiet"], cwd=tmp_path)
    before = sorted(os.listdir(tmp_path))
    without = harness.run(command, cwd=tmp_path, check=False)
    recorded = harness.run(command, cwd=tmp_path, env=harness.preloaded(), check=False)
    assert (recorded.returncode, recorded.stdout, recorded.stderr) == (
        without.returncode, without.stdout, without.stderr,
    )
    assert sorted(os.listdir(tmp_path)) == before


def test_importing_torch_alone_leaves_no_trace(python_env, simulate, tmp_path):
    """PyTorch is loaded, but no function of CUDA is called."""
    done = simulate([python_env("torch215"), "-c", "import torch; torch.zeros(3)"], preload=True)
    assert (done.stdout, done.stderr) == ("", "")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("version", ("py38", "py39", "py310", "py311", "py312", "py313", "py314"))
def test_plain_pythons_leave_no_trace(version, python_env, tmp_path):
    done = harness.run(
        [python_env(version), "-c", "print('hello')"], cwd=tmp_path, env=harness.preloaded()
    )
    assert (done.stdout, done.stderr) == ("hello\n", "")
    assert os.listdir(tmp_path) == []


def test_an_output_directory_that_cannot_be_written(in_forks, tmp_path):
    """One line on stderr, and the program runs on undisturbed."""
    (tmp_path / "file").write_text("in the way")
    run, command = in_forks("torch215"), [harness.WORKLOADS / "train.py", "--steps", "1", "--batch", "4"]
    without = run(command, cwd=tmp_path)
    for output in (tmp_path / "file" / "report.bin", Path("/proc/absent/report.bin")):
        recorded = run(command, preload=True, cwd=tmp_path, env={"GPUMEM_OUTPUT": str(output)})
        assert recorded.stdout == without.stdout
        more = [l for l in recorded.stderr.splitlines() if l not in without.stderr.splitlines()]
        assert len(more) == 1 and str(output.parent) in more[0], recorded.stderr


def test_an_earlier_report_is_never_overwritten(simulate, python_env, tmp_path):
    command = [python_env("numba"), harness.WORKLOADS / "bindings_client.py"]
    simulate(command, preload=True)
    first = (tmp_path / "report.bin").read_bytes()
    simulate(command, preload=True)
    assert (tmp_path / "report.bin").read_bytes() == first
    assert len(list(tmp_path.glob("report*.bin"))) == 2


def test_the_library_loads_in_a_program_that_closes_stderr(forks, tmp_path):
    """Descriptor 2 closed: our line must not land in a file that the program then opens as 2."""
    script = (
        "import os, torch\n"
        "os.close(2)\n"
        "kept = torch.empty(10, device='cuda')\n"
        "assert os.open('opened', os.O_CREAT | os.O_RDWR) == 2\n"
    )
    forks("torch215").run(["-c", script], cwd=tmp_path, env={"GPUMEM_QUIET": "1"})
    assert (tmp_path / "opened").read_bytes() == b""
