"""GPUMEM_LIMIT: a large card with a limit behaves like a card of that size: the same calls fail, and the driver, the
runtime and NVML report the same memory; the recorder itself sees the real card.

What breaks these tests: a function that takes memory and does not report it (`takes`), a query that is answered
without the limit, memory of the card that is counted as the program's, or is not released."""

import itertools
import json
import re

import harness
import pytest

from test_differential import DIFFERENTIAL, sequences

# The simulator numbers cards by their size, as CUDA does.
SMALL = "0=1GiB,1=512MiB,2=256MiB"
PACKAGE = {"PYTHONPATH": str(harness.ROOT / "python")}
# Handles of physical memory: what is taken of the card uses numbers up.
HANDLE_BYTES, HANDLE_KIND = 32, 0x5C0010


def same(first, second):
    """Both runs printed the same, and something."""
    assert first.stdout == second.stdout
    assert first.stdout.strip() and first.returncode == second.returncode
    return first.stdout


@pytest.fixture
def both(simulate):
    """Runs a command on a small card, and on a larger one with a limit under the recorder."""

    def run(command, memory, devices=1, large="16GiB", env=None, **options):
        small = simulate(command, memory=memory, devices=devices, env=env, **options)
        limited = simulate(
            command, memory=large, devices=devices, preload=True, env={**(env or {}), "GPUMEM_LIMIT": memory}, **options
        )
        return small, limited

    return run


def calls(path):
    """The calls of a transcript, handles of physical memory by the order in which they came."""
    numbers = {}
    for line in path.read_text(errors="replace").splitlines():
        yield re.sub(
            r"\d{17}",
            lambda found: f"handle {numbers.setdefault(int(found[0]), len(numbers))}"
            if int(found[0]) >> HANDLE_BYTES == HANDLE_KIND
            else found[0],
            line,
        )


@sequences(300, 1500)
def test_random_programs_get_the_same_results_and_leave_the_same_ledgers(tmp_path, analyze_json, count):
    """Every kind of memory and every call of the differential test, on three cards that run full, both ledgers
    included: what failed left no trace in them, nor did what was taken of the cards meanwhile."""
    runs = {}
    for name, memory, limit in [("small", SMALL, None), ("limited", "16GiB", SMALL)]:
        folder = tmp_path / name
        folder.mkdir()
        done = harness.simulate(
            [
                DIFFERENTIAL, "--alone", "--threads", "turns", "--sequences", str(count), "--seed", "1000000",
                "--transcript", folder / "calls", "--counters", folder / "counters",
            ],
            devices=3, memory=memory, preload=True, cwd=folder,
            env={
                "GPUMEM_LIMIT": limit, "GPUMEM_STACKS": "off", "GPUMEM_QUIET": "1", "GPUMEM_OUTPUT": "report.bin",
                "GPUMEM_SIM_CONTEXT_BYTES": "16MiB",
            },
        )
        statistics = json.loads(done.stdout.partition("STATISTICS ")[2])
        assert statistics["failures"]["2"] > count / 5, "hardly anything failed for want of memory"
        runs[name] = folder
    pairs = itertools.zip_longest(calls(runs["limited"] / "calls"), calls(runs["small"] / "calls"))
    number = 0
    for number, (ours, wanted) in enumerate(pairs, 1):
        assert ours == wanted, f"call {number} of the transcripts"
    assert number > 133 * count
    assert (runs["limited"] / "counters").read_text() == (runs["small"] / "counters").read_text()
    limited, small = (analyze_json("report", "--all", runs[name] / "report.bin") for name in ("limited", "small"))
    assert limited["exact"] and small["exact"]
    for ours, wanted in zip(limited["devices"], small["devices"]):
        for figure in ("driver", "host", "unexplained_bytes"):
            assert ours[figure] == wanted[figure], (ours["ordinal"], figure)
        # The time of a reading decides when it finds the memory of contexts and code, and how much at once.
        assert ours["physical"]["live_bytes"] == wanted["physical"]["live_bytes"], ours["ordinal"]
        assert ours["total_bytes"] == 16 << 30 and ours["limit_bytes"] == wanted["total_bytes"]
        assert ours["physical"]["peak_bytes"] <= ours["limit_bytes"]


@pytest.mark.parametrize("devices, memory", ((1, "1GiB"), (2, "0=1GiB,1=768MiB")))
def test_what_a_program_is_told(devices, memory, both, python_env):
    """By driver, runtime and NVML, before CUDA is there and at each step, with other processes on the card; and
    failures as the runtime leaves them."""
    told = same(
        *both(
            [python_env("py312"), harness.WORKLOADS / "limit_told.py", str(devices)], memory, devices,
            large="0=16GiB,1=9GiB",
            env={
                "GPUMEM_SIM_RESERVED_BYTES": "100MiB", "GPUMEM_SIM_OTHER_BYTES": "96MiB",
                "GPUMEM_SIM_CONTEXT_BYTES": "64MiB", "GPUMEM_QUIET": "1",
            },
        )
    )
    assert "last 2 2 0\n" in told and "pointer 7\n" in told
    assert f"totalGlobalMem {1 << 30}\n" in told
    for call in ("cuMemAlloc 314572800", "cudaMalloc", "cuMemAllocAsync", "cuMemCreate", "cuCtxCreate"):
        assert f"{call} 2" in told, call


@pytest.mark.parametrize(
    "environment, allocator, fraction",
    (
        ("torch215", None, 0), ("torch215", "backend:cudaMallocAsync", 0),
        pytest.param("torch215", "expandable_segments:True", 0, marks=pytest.mark.slow),
        pytest.param("torch215", None, 0.5, marks=pytest.mark.slow), pytest.param("torch112", None, 0, marks=pytest.mark.slow),
    ),
)
def test_pytorch(environment, allocator, fraction, both, python_env):
    """PyTorch's messages, figures and retries are those of a small card."""
    command = [python_env(environment), harness.WORKLOADS / "limit_torch.py", str(fraction)]
    if environment == "torch112":
        command.append("old")
    told = same(
        *both(command, "3GiB", large="24GiB", env={"PYTORCH_CUDA_ALLOC_CONF": allocator, "GPUMEM_QUIET": "1"})
    )
    assert f"total {3 << 30}\n" in told and ("OutOfMemoryError" in told or "RuntimeError" in told)
    assert "trained" in told


def test_threads(simulate, python_env):
    """Of two threads that request at once only one succeeds if there is room for one, and both if there is room for
    both."""
    done = simulate(
        [python_env("py312"), harness.WORKLOADS / "limit_threads.py", "150"], preload=True,
        env={"GPUMEM_LIMIT": "2GiB", "GPUMEM_QUIET": "1"},
    )
    assert done.stdout.splitlines() == [
        "one fits {(0, 2): 150}", "both fit {(0, 0): 150}", "none fits {(2, 2): 150}",
    ]


FILL = """
import torch
kept = []
try:
    while True:
        kept.append(torch.empty(100 << 20, dtype=torch.uint8, device="cuda"))
except RuntimeError:
    print(len(kept))
"""


# The same without PyTorch, on plain memory; prints what the card has in all, too.
PLAIN_FILL = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
cuda.cuInit(0)
context, free, total, pointer = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_uint64()
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
cuda.cuCtxSetCurrent(context)
cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
while cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(100 << 20)) == 0:
    pass
print(total.value)
"""


def test_the_capture_and_the_post_mortem_say_that_it_was_the_limit(simulate, python_env, analyze, analyze_json, tmp_path):
    command = [python_env("torch215"), "-c", FILL]
    done = simulate(command, preload=True, env={"GPUMEM_LIMIT": "2GiB"}, cwd=tmp_path)
    assert re.search(r"^  card     [\d.]+ GiB of 2\.00 GiB in use, ", done.stderr, re.M)
    assert "limit    GPUMEM_LIMIT=2GiB: the card itself has 16.0 GiB" in done.stderr
    report = tmp_path / "report.bin"
    failures = analyze_json("oom", report)["failures"]
    assert {failure["level"] for failure in failures} == {"tensor"}
    assert all(failure["by_limit"] and failure["limit_bytes"] == 2 << 30 for failure in failures)
    assert "because of the limit of 2.00 GiB (GPUMEM_LIMIT)" in " ".join(analyze("oom", report).stdout.split())
    told = analyze(report).stdout
    assert "limit        GPU 0 was limited to 2.00 GiB of the card's 16.0 GiB (GPUMEM_LIMIT)\n" in told
    [device] = analyze_json("report", "--all", report)["devices"]
    assert (device["total_bytes"], device["limit_bytes"], device["unexplained_bytes"]) == (16 << 30, 2 << 30, 0)
    # NVML's readings are of the card, without memory that was taken only temporarily.
    assert device["nvml_process_bytes"] == device["physical"]["live_bytes"] < 2 << 30


def test_what_the_limit_is_not_to_blame_for(simulate, python_env, analyze_json, tmp_path):
    """A fraction that PyTorch itself keeps to, and a card that is smaller than its limit."""
    script = "import torch; torch.cuda.set_per_process_memory_fraction(0.25)" + FILL
    simulate(
        [python_env("torch215"), "-c", script], preload=True, cwd=tmp_path,
        env={"GPUMEM_LIMIT": "8GiB", "GPUMEM_QUIET": "1", "GPUMEM_OUTPUT": "fraction.bin"},
    )
    failures = analyze_json("oom", tmp_path / "fraction.bin")["failures"]
    assert failures and not any(failure["by_limit"] for failure in failures)
    done = simulate(
        [python_env("py312"), "-c", PLAIN_FILL], preload=True, memory="1GiB", cwd=tmp_path,
        env={"GPUMEM_LIMIT": "2GiB", "GPUMEM_QUIET": "1", "GPUMEM_OUTPUT": "small.bin"},
    )
    [line] = done.stderr.splitlines()
    assert line == "gpumem: GPUMEM_LIMIT=2GiB: GPU 0 has only 1GiB, so it is not limited. Use a lower limit."
    [failure, *more] = analyze_json("oom", tmp_path / "small.bin")["failures"]
    assert not failure["by_limit"] and failure["limit_bytes"] is None
    [device] = analyze_json("report", "--all", tmp_path / "small.bin")["devices"]
    assert "limit_bytes" not in device


@pytest.mark.parametrize("value", ("8G", "0=8GiB,0=9GiB", "-1", "64=1GiB", ""))
def test_a_value_that_is_none(value, simulate, python_env, tmp_path):
    """One line, and no limit."""
    done = simulate(
        [python_env("py312"), "-c", PLAIN_FILL], preload=True, cwd=tmp_path,
        env={"GPUMEM_LIMIT": value, "GPUMEM_QUIET": "1"},
    )
    [line] = done.stderr.splitlines()
    assert line.startswith(f"gpumem: GPUMEM_LIMIT={value}: invalid value;") and "8GiB" in line
    assert done.stdout == f"{16 << 30}\n"


def test_at_run_time(simulate, python_env, tmp_path, analyze_json):
    """gpumem.limit sets, changes and lifts it, before CUDA is there and after."""
    script = """
import gpumem, torch

def fits(mib):
    try:
        torch.empty(mib << 20, dtype=torch.uint8, device="cuda")
        return True
    except RuntimeError:
        return False
    finally:
        torch.cuda.empty_cache()

def total():
    return torch.cuda.mem_get_info()[1] >> 20

print(gpumem.limit("2GiB"), total(), fits(1200), fits(1600))
print(gpumem.limit("1.5 GiB", device=0), total(), fits(900), fits(1200))
print(gpumem.limit(None, device=0), total(), fits(6000))
print(gpumem.limit(3 << 30, device=1), total(), fits(6000))
print(gpumem.limit("4 GB"), total(), fits(3000), fits(4000))
kept = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
print(gpumem.limit(1 << 30), torch.cuda.mem_get_info(), fits(2))
print(gpumem.limit(0), fits(2))
for wrong in (("8G",), (-1,), (1.5,), ("1GiB", -1), ("1GiB", 64), (True,)):
    try:
        gpumem.limit(*wrong)
    except ValueError as error:
        print("ValueError", "size" if "not a size" in str(error) else str(error).split(":")[0])
"""
    python = python_env("torch215")
    done = simulate(
        [python, "-c", script], preload=True, env={**PACKAGE, "GPUMEM_QUIET": "1"}, cwd=tmp_path
    )
    assert done.stdout.splitlines() == [
        "True 2048 True False",
        "True 1536 True False",
        "True 16384 True",
        "True 16384 True",
        "True 3814 True False",
        "True (0, 1073741824) False",
        "True True",
        *["ValueError size"] * 3,
        *["ValueError no such device"] * 2,
        "ValueError size",
    ]
    assert all(failure["by_limit"] for failure in analyze_json("oom", tmp_path / "report.bin")["failures"])
    script = (
        "import ctypes\nlib = ctypes.CDLL(None)\nlib.gpumem_limit.argtypes = [ctypes.c_int, ctypes.c_uint64]\n"
        "print([lib.gpumem_limit(device, 1 << 30) for device in (0, 63, -1, 64, 300, -2)])"
    )
    assert simulate([python, "-c", script], preload=True).stdout == "[0, 0, 0, 2, 2, 2]\n"
    script = "import gpumem; print(gpumem.limit('8GiB'))"
    assert simulate([python, "-c", script], env=PACKAGE).stdout == "False\n"
