"""The pytest plugin: limits to the byte, in any phase of a session, and the summary.

What breaks these tests: a peak of another test, a limit compared with MB of 10^6, a leak that the garbage collector
would have freed, a mark that has no effect where recording is off."""

import os
import re
import sys

import harness
import pytest

CHECKOUT = str(harness.ROOT / "python")

# A block of CUDA's by its size in bytes; what is kept is live until it is freed.
CUDA = """
import ctypes, pytest

cuda = ctypes.CDLL("libcuda.so.1")

class Block:
    def __init__(self, size):
        context, self.at = ctypes.c_void_p(), ctypes.c_uint64()
        for name, *arguments in (("cuInit", 0), ("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0),
                                 ("cuCtxSetCurrent", context),
                                 ("cuMemAlloc_v2", ctypes.byref(self.at), ctypes.c_size_t(size))):
            assert getattr(cuda, name)(*arguments) == 0, name

    def __del__(self):
        cuda.cuMemFree_v2(self.at)

MIB = 1 << 20
kept = []
"""


@pytest.fixture
def run_tests(tmp_path):
    """run_tests(source, *options) runs pytest on the source under gpumem run on the simulator."""

    def start(source, *options, recorded=True, python=sys.executable, path=(), header=CUDA):
        (tmp_path / "test_it.py").write_text(header + source)
        launcher = ["-m", "gpumem", "run", "-q"] if recorded else []
        return harness.simulate(
            [python, *launcher, "-m", "pytest", "-p", "gpumem.pytest_plugin", "-p", "no:cacheprovider", "-rA",
             "--rootdir", tmp_path, "test_it.py", *options],
            env={"PYTHONPATH": os.pathsep.join((CHECKOUT, *map(str, path)))}, cwd=tmp_path, check=False,
        )  # fmt: skip

    return start


def outcomes(done):
    """What became of each test."""
    said = re.findall(r"^(PASSED|FAILED|ERROR|XFAIL|XPASS) \S*::(\w+)", done.stdout, re.M)
    assert said, harness.described(done)
    return {name: result for result, name in said}


LIMITS = """
@pytest.mark.limit_gpu_memory("6 MiB")
def test_at_the_limit():
    Block(6 * MIB)

@pytest.mark.limit_gpu_memory("6 MiB")
def test_a_byte_more():
    Block(6 * MIB + 1)

@pytest.mark.limit_gpu_memory(size=6 * MIB)
def test_together():
    first, second = Block(3 * MIB), Block(4 * MIB)

@pytest.mark.limit_gpu_memory("6MiB")
def test_one_after_the_other():
    Block(5 * MIB)
    Block(5 * MIB)

@pytest.mark.limit_gpu_memory("6 MiB", device=1)
def test_of_another_device():
    Block(7 * MIB)

@pytest.mark.limit_gpu_memory("6 MiB", level="tensor")
def test_of_another_level():
    Block(7 * MIB)

def test_without_a_mark():
    kept.append(Block(100 * MIB))

@pytest.mark.limit_gpu_memory("6 MiB")
def test_above_what_was_there():
    Block(5 * MIB)

@pytest.mark.limit_gpu_memory("1 MiB")
def test_its_own_failure():
    Block(2 * MIB)
    assert False, "own"

@pytest.mark.xfail(strict=True)
@pytest.mark.limit_gpu_memory("1 MiB")
def test_expected():
    Block(2 * MIB)

@pytest.mark.limit_gpu_memory("1 MiB")
class TestClass:
    def test_mark_of_the_class(self):
        Block(2 * MIB)

    @pytest.mark.limit_gpu_memory("3 MiB")
    def test_the_nearest_mark_counts(self):
        Block(2 * MIB)

import unittest

class TestCase(unittest.TestCase):
    @pytest.mark.limit_gpu_memory("1 MiB")
    def test_of_unittest(self):
        Block(2 * MIB)
"""


def test_limits_of_memory(run_tests):
    done = run_tests(LIMITS)
    assert outcomes(done) == {
        "test_at_the_limit": "PASSED", "test_a_byte_more": "FAILED", "test_together": "FAILED",
        "test_one_after_the_other": "PASSED", "test_of_another_device": "PASSED",
        "test_of_another_level": "PASSED", "test_without_a_mark": "PASSED",
        "test_above_what_was_there": "PASSED", "test_its_own_failure": "FAILED", "test_expected": "XFAIL",
        "test_mark_of_the_class": "FAILED", "test_the_nearest_mark_counts": "PASSED",
        "test_of_unittest": "FAILED",
    }, harness.described(done)  # fmt: skip
    assert (
        "limit_gpu_memory: the test took 6.00 MiB (6,291,457 bytes) from CUDA on GPU 0; its limit is "
        "6.00 MiB (6,291,456 bytes)"
    ) in done.stdout
    assert "took 7.00 MiB (7,340,032 bytes)" in done.stdout
    assert "assert False" in done.stdout, "a test's own failure is told, not the limit"
    assert done.stdout.count("the test took 2.00 MiB") >= 2


LEAKS = """
import gc
gc.disable()

class Cycle:
    def __init__(self, block):
        self.block, self.own = block, self

@pytest.mark.limit_gpu_leaks("1 MiB")
def test_leaks():
    kept.append(Block(2 * MIB))

@pytest.mark.limit_gpu_leaks("1 MiB")
def test_does_not():
    Block(50 * MIB)

@pytest.mark.limit_gpu_leaks("1 MiB")
def test_of_a_cycle():
    Cycle(Block(2 * MIB))

def test_leaves_a_cycle():
    Cycle(Block(2 * MIB))

@pytest.mark.limit_gpu_leaks(0)
@pytest.mark.limit_gpu_memory("1 MiB")
def test_is_not_another_tests():
    Block(MIB)

@pytest.mark.limit_gpu_leaks("1 MiB")
@pytest.mark.limit_gpu_memory("1 MiB")
def test_both():
    kept.append(Block(3 * MIB))
"""


def test_limits_of_leaks(run_tests):
    done = run_tests(LEAKS)
    assert outcomes(done) == {
        "test_leaks": "FAILED", "test_does_not": "PASSED", "test_of_a_cycle": "PASSED",
        "test_leaves_a_cycle": "PASSED", "test_is_not_another_tests": "PASSED", "test_both": "FAILED",
    }, harness.described(done)  # fmt: skip
    assert "limit_gpu_leaks: the test left 2.00 MiB (2,097,152 bytes) from CUDA on GPU 0" in done.stdout
    assert "the test took 3.00 MiB" in done.stdout and "the test left 3.00 MiB" in done.stdout


MARKED = """
@pytest.mark.limit_gpu_memory("1 MiB")
def test_marked():
    pass

def test_plain():
    pass
"""


def test_where_nothing_is_recorded(run_tests, tmp_path):
    """Never silent: an error by default, or what the user has configured."""
    needs = "limit_gpu_memory needs libgpumem.so in this process: start pytest as `gpumem run -m pytest …`"
    done = run_tests(MARKED, recorded=False)
    assert outcomes(done) == {"test_marked": "ERROR", "test_plain": "PASSED"}
    assert f"{needs}, or set gpumem_missing = skip" in done.stdout
    done = run_tests(MARKED, "--gpumem-missing", "skip", recorded=False)
    assert (done.returncode, needs in done.stdout) == (0, True), harness.described(done)
    assert "1 passed, 1 skipped" in done.stdout
    done = run_tests(MARKED, "--gpumem-missing", "ignore", recorded=False)
    assert "2 passed" in done.stdout
    (tmp_path / "pytest.ini").write_text("[pytest]\ngpumem_missing = skip\n")
    done = run_tests(MARKED, recorded=False)
    assert "1 passed, 1 skipped" in done.stdout
    done = run_tests(MARKED, "--gpumem", recorded=False)
    assert done.returncode == 4
    assert "ERROR: --gpumem needs libgpumem.so in this process: start pytest as `gpumem run -m pytest …`" in done.stderr


def test_marks_that_are_wrong(run_tests):
    done = run_tests("""
@pytest.mark.limit_gpu_memory("2 G")
def test_unit():
    pass

@pytest.mark.limit_gpu_leaks()
def test_no_size():
    pass

@pytest.mark.limit_gpu_leaks("1 KiB", level="cache")
def test_level():
    pass
""")
    assert outcomes(done) == dict.fromkeys(("test_unit", "test_no_size", "test_level"), "ERROR")
    for said in (
        "@pytest.mark.limit_gpu_memory: '2 G' is not a size: write bytes, or a number with KiB, MiB or GiB",
        "@pytest.mark.limit_gpu_leaks: limit_gpu_leaks() missing 1 required positional argument: 'size'",
        "@pytest.mark.limit_gpu_leaks: level 'cache' is none of tensor, driver, physical, host",
    ):
        assert said in done.stdout, harness.described(done)
    assert "During handling" not in done.stdout and "Traceback" not in done.stdout, harness.described(done)


def test_a_forked_child_is_not_taken_for_recorded(run_tests):
    """A child of a recorded process has no figures: a limit in it fails, and the message has the reason."""
    done = run_tests("""
@pytest.mark.limit_gpu_memory("1 MiB")
def test_in_a_child():
    pass
""", header=CUDA.replace("import ctypes, pytest", "import ctypes, os, pytest") + """
Block(MIB)
if os.fork():
    os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
""")  # fmt: skip
    assert "limit_gpu_memory: nothing is recorded in this process" in done.stdout, harness.described(done)
    assert done.returncode == 1


HEAVY = """
def test_light():
    Block(2 * MIB)

def test_heavy():
    kept.append(Block(30 * MIB))

def test_middle():
    Block(MIB // 2)
    kept.clear()
    Block(4 * MIB)

def test_nothing():
    pass
"""


def test_the_largest_tests(run_tests):
    done = run_tests(HEAVY, "--gpumem", "--gpumem-top", "2")
    assert done.returncode == 0, harness.described(done)
    part = done.stdout.split("GPU memory: the largest tests")[1].splitlines()
    assert [line.split() for line in part[1:5]] == [
        ["peak", "left", "GPU", "level", "test"],
        ["30.0", "MiB", "30.0", "MiB", "0", "driver", "test_it.py::test_heavy"],
        ["2.00", "MiB", "0", "B", "0", "driver", "test_it.py::test_light"],
        ["…", "and", "1", "more", "(--gpumem-top", "N)"],
    ]
    done = run_tests("def test_nothing(): pass", "--gpumem", header="")
    assert "no test used a GPU" in done.stdout


def test_tensors_of_pytorch(run_tests, python_env):
    """Tensors by what PyTorch rounds them to; its pool, which grows by 20 MiB at once, is not the test's."""
    site = {python_env("tests").parent.parent / "lib" / f"python3.{sys.version_info[1]}" / "site-packages"}
    done = run_tests("""
import pytest, torch

def make(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")

@pytest.mark.limit_gpu_memory("3 MiB")
def test_fits():
    make(3 << 20)

@pytest.mark.limit_gpu_memory("3 MiB")
def test_does_not_fit():
    make((3 << 20) + 1)

@pytest.mark.limit_gpu_memory("1 MiB", level="driver")
def test_the_pool():
    make(1)

@pytest.mark.limit_gpu_leaks("512 B")
def test_grows(kept=[]):
    kept.append(make(1))
    kept.append(make(1))
""", "--gpumem", python=python_env("torch215"), path=site, header="")  # fmt: skip
    assert outcomes(done) == {
        "test_fits": "PASSED", "test_does_not_fit": "FAILED", "test_the_pool": "FAILED", "test_grows": "FAILED",
    }, harness.described(done)  # fmt: skip
    assert "the test took 3.00 MiB (3,146,240 bytes) of tensors on GPU 0" in done.stdout
    assert "the test left 1.00 KiB (1,024 bytes) of tensors" in done.stdout
    assert "the test took 2.00 MiB (2,097,152 bytes) from CUDA on GPU 0" in done.stdout
