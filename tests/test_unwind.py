"""The unwinder against the system's, frame by frame, inside real programs: every stack of gpumem's unwinder must equal
libgcc's stack from the same place, whatever the program does with its stack.

tests/unwind-check is preloaded, without the recorder; it compares and counts. docs/measured/unwind.md has the figures.
"""

import json
import os
import tempfile
from pathlib import Path

import harness
import pytest

LIBRARY = harness.BUILT / "libunwind_check.so"


@pytest.fixture
def compared(tmp_path):
    """compared(program, command, every=N) runs a command with the check preloaded, and returns what it
    found in the process that runs `program`, which found no difference unless a fault is planted."""

    def run(program, command, *, every=16, fault=None, simulate=False, env=None):
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        environment = {
            "LD_PRELOAD": str(LIBRARY),
            "UNWIND_CHECK_OUTPUT": str(folder),
            "UNWIND_CHECK_EVERY": str(every),
            "UNWIND_CHECK_FAULT": fault,
            **(env or {}),
        }
        if simulate:
            command = harness.simulator_command(command)
        done = harness.run(command, env=environment, cwd=tmp_path)
        found = [{**json.loads(path.read_text()), "pid": path.stem} for path in folder.iterdir()]
        found = [one for one in found if one["program"] == os.path.realpath(program)]
        assert len(found) == 1, harness.described(done)
        found = {**found[0], "stdout": done.stdout}
        print(json.dumps(found))
        if fault is None:
            assert found["mismatches"] == 0, harness.described(done)
            assert found["shared_hashes"] == 0 and found["changed_hashes"] == 0, found
        return found

    return run


@pytest.fixture
def train(compared, python_env):
    """train("torch215", "train.py", …): PyTorch, whose stacks gpumem's unwinder can all take."""

    def run(environment, script, *options, **how):
        python = python_env(environment)
        found = compared(python, [python, harness.WORKLOADS / script, *options], every=100, **how)
        # A function that two registers cannot express is rare.
        assert sum(found["by_system"].values()) <= found["compared"] // 100, found
        return found

    return run


def test_a_training_with_pytorch_215(train):
    found = train("torch215", "train.py", "--steps", "4", "--batch", "8", simulate=True)
    assert found["compared"] > 25_000 and found["distinct"] > 10_000
    assert found["by_entry"]["pytorch"] > 1_500


@pytest.mark.slow
def test_threads_with_pytorch_215(train):
    found = train("torch215", "unwind_torch.py")
    assert found["compared"] > 20_000 and found["distinct"] > 10_000
    assert found["by_entry"]["posix_memalign"] > 200 and found["threads"] >= 10


@pytest.mark.slow
def test_a_training_with_pytorch_112(train):
    found = train("torch112", "train.py", "--steps", "3", "--batch", "8", simulate=True)
    assert found["compared"] > 15_000 and found["distinct"] > 8_000


@pytest.mark.slow
def test_threads_with_pytorch_112(train):
    found = train("torch112", "unwind_torch.py")
    assert found["compared"] > 12_000 and found["distinct"] > 8_000
    assert found["threads"] >= 10


def test_numba_cuda(compared, python_env):
    python = python_env("numba")
    command = [python, harness.WORKLOADS / "numba_vectors.py"]
    found = compared(python, command, every=20, simulate=True)
    assert found["compared"] > 2_000
    assert sum(found["by_system"].values()) <= found["compared"] // 100, found


def test_code_that_numba_makes(compared, python_env):
    """Such code is in no module and has separate tables, so its stacks are left to the system's unwinder; those of
    its compiler are not."""
    python = python_env("numba")
    found = compared(python, [python, harness.WORKLOADS / "unwind_numba.py"], every=100)
    assert found["compared"] > 3_000 and found["by_system"]["no_module"] > 5_000
    assert found["by_system"]["other_stack"] == found["by_system"]["signal"] == 0


@pytest.mark.parametrize("version", ["py38", "py312", *(pytest.param(version, marks=pytest.mark.slow) for version in ("py313", "py314"))])
def test_an_interpreter(version, compared, python_env):
    python = python_env(version)
    # An interpreter that was built in the cache runs through a separate loader.
    program = harness.run([python, "-c", "import os; print(os.readlink('/proc/self/exe'))"]).stdout.strip()
    found = compared(program, [python, harness.WORKLOADS / "unwind_python.py"])
    assert found["compared"] > 25_000 and found["distinct"] > 400 and found["threads"] >= 12
    assert sum(found["by_system"].values()) == 0, found


def test_an_interpreter_that_makes_code_for_perf(compared, python_env):
    python = python_env("py312")
    script = harness.WORKLOADS / "unwind_python.py"
    found = compared(python, [python, "-X", "perf", script, "8"])
    Path(f"/tmp/perf-{found['pid']}.map").unlink(missing_ok=True)  # CPython has no other place for it
    assert found["compared"] > 7_000 and found["distinct"] > 400
    assert sum(found["by_system"].values()) == 0, found


def test_greenlets(compared, python_env):
    python = python_env("greenlet")
    found = compared(python, [python, harness.WORKLOADS / "unwind_greenlets.py"])
    assert found["compared"] > 3_000 and found["threads"] >= 4
    # Beyond a greenlet's first frame lies what another one left: a word of it may lead off the stack.
    assert sum(found["by_system"].values()) <= found["compared"] // 10, found


@pytest.mark.parametrize("level", ["-O2", *(pytest.param(level, marks=pytest.mark.slow) for level in ("-O0", "-O1"))])
def test_every_kind_of_native_frame(level, compared, build_c):
    """Exceptions, alloca, aligned frames, jumps, depth, threads, signal handlers, fibers, two stacks,
    a frame by another register, made code."""
    program = build_c("unwind_stacks.cpp", level, "-pthread", "-ldl")
    found = compared(program, [program, "all"], every=8)
    assert found["compared"] > 35_000 and found["distinct"] > 1_200
    assert found["deepest"] == 512 and found["truncated"] > 200
    assert found["threads"] > 128  # some are met again after they gave their unwinder back
    left = found["by_system"]
    assert left["other_stack"] == left["no_module"] == 0 and left["signal"] > 500
    assert 500 < left["rule"] < 5_000 and len(found["culprits"]) == 1, found  # one function's frames


@pytest.fixture
def libraries(build_c):
    flags = ("-shared", "-fPIC", "-fno-stack-protector")
    return [build_c("unwind_library.c", *flags, f"-DROOM={room}") for room in (2048, 4096)]


def test_a_library_in_the_place_of_an_unloaded_one(compared, build_c, libraries):
    """The same return addresses with frames of other sizes, 200 times."""
    program = build_c("unwind_stacks.cpp", "-O1", "-pthread", "-ldl")
    found = compared(program, [program, "libraries", *libraries])
    assert found["stdout"] == "same address 200 of 200\n"
    assert found["compared"] > 2_500


def test_faults_are_noticed(compared, build_c, libraries):
    """A wrong frame, and an unload that is not checked for."""
    program = build_c("unwind_stacks.cpp", "-O1", "-pthread", "-ldl")
    found = compared(program, [program, "frames"], fault="frame")
    assert found["mismatches"] > 10_000
    # Only where the program calls it: an allocation in the loader from a new place would check instead.
    found = compared(program, [program, "libraries", *libraries], fault="unloads", every=1_000_000)
    assert found["mismatches"] > 50
