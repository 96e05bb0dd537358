"""`gpumem plan` on real PyTorch programs: its prediction for a card equals a run on that card.

What breaks these tests: a verdict that a run on the card contradicts, peaks that differ from PyTorch's own, a
suggested change that does not help, a fault of the program's that counts as a lack of memory."""

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import types

import harness
import pytest
import schemas
from waiting import WATCHDOG, until

sys.path.insert(0, str(harness.ROOT / "python"))

from gpumem._plan import verdict  # noqa: E402

PROGRAM, RANKS = (harness.WORKLOADS / "plan" / name for name in ("gpt.py", "ranks.py"))
MIB = 1 << 20
FAILED_AND_ABORTED = """
import os, sys, traceback
try:
    raise ValueError("a fault of the program's own")
except ValueError:
    traceback.print_exc()
print("terminate called without an active exception", file=sys.stderr, flush=True)
os.abort()
"""


# Allocates 100 MiB as often as its argument says.
WITHOUT_PYTORCH = """
import ctypes, sys
cuda, context, pointer = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
assert not (cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) or cuda.cuCtxSetCurrent(context))
for _ in range(int(sys.argv[1])):
    if cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(100 << 20)): raise MemoryError("CUDA out of memory")
"""


def slow(test):
    """Many runs of a program with PyTorch."""
    return pytest.mark.slow(pytest.mark.timeout(1200)(test))


@pytest.fixture(scope="module")
def python(python_env):
    return python_env("torch215")


def plan(python, *words, cwd=None):
    return subprocess.run(
        [python, "-m", "gpumem", "plan", *map(str, words)], capture_output=True, text=True, timeout=1200, cwd=cwd,
        env=harness.clean_environment({"PYTHONPATH": str(harness.ROOT / "python")}),
    )  # fmt: skip


def works(python, memory, *words):
    """Whether the program, without a plan, works on a card with `memory` bytes."""
    command = [harness.WITH_SIMULATOR, "--memory", memory, python, PROGRAM, *words]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=harness.clean_environment(), timeout=WATCHDOG)
    if "OutOfMemoryError" in done.stderr:
        return False
    assert done.returncode == 0 or "terminate called without an active exception" in done.stderr, done.stderr
    return True


def test_the_peaks_are_those_that_the_program_has_without_a_plan(python, tmp_path):
    report = tmp_path / "stats.json"
    command = [harness.WITH_SIMULATOR, "--memory", "16GiB", python, PROGRAM, "--report", report]
    harness.run(command, env=harness.clean_environment(), check=False)
    stats = json.loads(report.read_text())
    done = plan(python, "--card", "16GiB", "--format", "json", "--", PROGRAM)
    [case] = schemas.found("plan", done.stdout)["cases"]
    assert (done.returncode, case["verdict"]) == (0, "fits"), done.stderr
    assert case["tensor_peak_bytes"] == [stats["allocated_bytes.all.peak"]] * 2
    assert case["reserved_peak_bytes"] == [stats["reserved_bytes.all.peak"]] * 2
    # The card also holds contexts and code.
    assert all(needed >= stats["reserved_bytes.all.peak"] + 512 * MIB for needed in case["needed_bytes"])
    assert sum(row["bytes"] for row in case["at"]["rows"]) <= case["needed_bytes"][1]
    assert "blocks.5.up" in [row["module"] for row in case["at"]["modules"]]


def test_verdicts_on_a_program_without_pytorch(python):
    """What it needs, beside a context of 512 MiB; on a card with too little; and how often it fits."""
    for times, status, verdict_ in ((3, 0, "fits"), (8, 4, "does not fit")):
        done = plan(python, "--card", "1GiB", "--no-changes", "--format", "json", "--", "-c", WITHOUT_PYTORCH, times)
        [case] = schemas.found("plan", done.stdout)["cases"]
        assert (done.returncode, case["verdict"]) == (status, verdict_), done.stderr
        assert status or case["needed_bytes"] == [(512 + 300) * MIB] * 2
    done = plan(python, "--card", "1GiB", "--search", "{}", "1..8", "--format", "json", "--", "-c", WITHOUT_PYTORCH)
    assert schemas.found("plan", done.stdout)["cases"][0]["largest"] == 5


def test_what_is_left_is_by_the_card_that_each_run_had():
    """With more room PyTorch may cache more, so that the run with the least room needs less."""
    runs = [types.SimpleNamespace(devices=[types.SimpleNamespace(ordinal=0, needed=size)]) for size in (900, 1090)]
    case = verdict.Case(verdict.Ends("x", "x", {}, {}, (1000, 1100), margin=(20, 30)))
    found = verdict.Verdict(case, verdict.FITS, *runs)
    assert (found.needed, found.left) == ([930, 1110], [-10, 70])


@slow
def test_the_smallest_card_is_the_one_on_which_it_works(python):
    done = plan(python, "--smallest-card", "--format", "json", "--", PROGRAM)
    [case] = schemas.found("plan", done.stdout)["cases"]
    least = case["smallest_card_bytes"]
    assert least % (2 * MIB) == 0
    assert works(python, least) and not works(python, least - 2 * MIB)
    # From there on it works on all, since the cache need not be emptied.
    assert case["room_for_all_bytes"] == case["needed_bytes"][1] >= least
    assert works(python, case["room_for_all_bytes"])


@slow
def test_the_largest_batch_is_the_one_that_trying_all_finds(python):
    # Room to spare for a batch of 3, and too little for 4: within 16 MiB of what a batch needs, PyTorch's threads decide.
    card = "1240MiB"
    done = plan(python, "--card", card, "--search", "--batch {}", "1..5", "--format", "json", "--", PROGRAM)
    [case] = schemas.found("plan", done.stdout)["cases"]
    tried = [number for number in range(1, 6) if works(python, card, "--batch", number)]
    assert case["largest"] == max(tried) == len(tried) and 1 < case["largest"] < 5


@slow
def test_what_fits_by_chance_is_no_promise(python):
    """It works on this card, by emptying the cache, and on a slightly smaller one it does not."""
    done = plan(python, "--card", "1198MiB", "--no-changes", "--format", "json", "--", PROGRAM, "--batch", "3")
    [case] = schemas.found("plan", done.stdout)["cases"]
    assert (done.returncode, case["verdict"], case["only_just"]) == (5, "too close to say", True), done.stderr
    assert case["retries"]
    assert works(python, "1198MiB", "--batch", "3") and not works(python, "1190MiB", "--batch", "3")


@slow
def test_what_does_not_fit_is_told_with_changes_that_help(python):
    card = "1216MiB"
    done = plan(python, "--card", card, "--", PROGRAM, "--batch", "8")
    assert done.returncode == 4, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "does not fit: memory runs out on a card of 1.19 GiB."
    assert lines[1].startswith("Memory runs out for ") and "gpt.py:" in lines[1]
    assert all(len(line) <= 80 for line in lines)
    assert "It fits with one of these changes" in done.stdout
    [batch] = re.findall(r"^ +[0-9.]+ [GM]iB  --batch ([0-9]+) ", done.stdout, re.M)
    assert works(python, card, "--batch", batch) and not works(python, card, "--batch", 2 * int(batch))
    assert "torch.utils.checkpoint for the repeated blocks: Block" in done.stdout


@slow
def test_one_rank_of_many(python):
    sizes = {}
    for world in (8, 1024):
        done = plan(python, "--card", "16GiB", "--world", world, "--rank", f"0,{world - 1}", "--format", "json", "--", RANKS, "fsdp")
        cases = schemas.found("plan", done.stdout)["cases"]
        assert [case["rank"] for case in cases] == [0, world - 1]
        sizes[world] = cases[0]["tensor_peak_bytes"][0]
    assert sizes[1024] < sizes[8]
    done = plan(python, "--card", "16GiB", "--world", "4", "--rank", "3", "--", RANKS, "ddp")
    assert done.returncode == 0, done.stderr


@slow
def test_a_plan_beside_a_real_run(python, tmp_path):
    capture = tmp_path / "real.bin"
    env = {"LD_PRELOAD": harness.LIBRARY, "GPUMEM_OUTPUT": capture, "GPUMEM_QUIET": "1", "GPUMEM_SIM_CONTEXT_BYTES": "400MiB"}
    command = [harness.WITH_SIMULATOR, python, PROGRAM]
    harness.run(command, env=harness.clean_environment(env), check=False)
    done = plan(python, "--card", "16GiB", "--against", capture, "--format", "json", "--", PROGRAM)
    tensors, reserved, card = schemas.found("plan", done.stdout)["against"]["rows"]
    for row in (tensors, reserved):
        assert row["planned_bytes"] == [row["measured_bytes"]] * 2
    assert {planned - card["measured_bytes"] for planned in card["planned_bytes"]} == {112 * MIB}


@slow
def test_what_is_kept(python, tmp_path):
    done = plan(python, "--card", "16GiB", "--save", tmp_path / "kept", "--", PROGRAM, "--batch", "3")
    assert done.returncode == 0
    # With this batch the cache is largest at another time than the tensors: the rows sum to the needed bytes
    # nevertheless.
    [needed] = re.findall(r"^fits: needs ([0-9.]+ GiB) of", done.stdout)
    assert "more at other times" in done.stdout and re.search(rf"^in all +{re.escape(needed)}$", done.stdout, re.M)
    assert sorted(os.listdir(tmp_path / "kept")) == ["16GiB.least.bin", "16GiB.least.txt", "16GiB.most.bin", "16GiB.most.txt"]
    harness.run([harness.ANALYZER, tmp_path / "kept" / "16GiB.least.bin"], check=False)


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--card", "16GiB", "--", "-c", "raise ValueError"], 1, "failed with status 1, but not because memory ran out"),
        (["--card", "16GiB", "--", "-c", "print(1)"], 1, "the program used no GPU"),
        # PyTorch's abort at exit is no failure, but this program had failed before it.
        (["--card", "16GiB", "--", "-c", FAILED_AND_ABORTED], 1, "failed with signal 6"),
        (["--card", "16GiB", "--timeout", "0.5", "--", "-c", "import time; time.sleep(3000)"], 1, "did not end within"),
        (["--card", "16GiB", "--", "no-such-program"], 127, "no such program"),
        (["--card", "16GiB"], 2, "no program: name it after --"),
        (["--card", "16GiB", PROGRAM, "--batch", "4"], 2, "no program: name it after --"),
        (["--card", "16GiB", "--crad", "--", PROGRAM], 2, "unrecognized arguments: --crad"),
        (["--", PROGRAM], 2, "no card: use --card"),
        (["--card", "h1000", "--", PROGRAM], 2, "h1000"),
        (["--card", "16GiB", "--search", "{}", "9..1", "--", PROGRAM], 2, "is not a range"),
        (["--card", "16GiB", "--rank", "1", "--", PROGRAM], 2, "--rank needs --world"),
        (["--card", "16GiB", "--world", "4", "--rank", "4", "--", PROGRAM], 2, "0 to 3"),
    ],
)
def test_what_is_no_plan_is_told_in_a_line(words, status, said, python):
    done = plan(python, *words)
    assert (done.returncode, done.stdout) == (status, "")
    assert said in done.stderr.splitlines()[-1]


def test_a_pytorch_of_another_cuda_is_refused_in_a_line(python, python_env):
    done = plan(python, "--card", "16GiB", "--", python_env("torch112"), PROGRAM)
    assert (done.returncode, done.stdout) == (1, "")
    assert "its PyTorch 1.12 was built for CUDA 10.2" in done.stderr.splitlines()[-1]


# A signal that a thread gets does not end a wait of the thread that runs Python's handlers.
@pytest.mark.parametrize("at", [min, max], ids=["the process", "a thread"])
@pytest.mark.parametrize("how", [[], ["--search", "{}", "1..4", "--jobs", "2"]], ids=["one run", "several"])
def test_a_plan_that_is_ended_ends_its_programs(how, at, python, tmp_path):
    program = tmp_path / "stays.py"
    program.write_text("import os, time\n\nopen(f'{os.getpid()}.pid', 'w').close()\ntime.sleep(3000)\n")
    process = subprocess.Popen(
        [str(word) for word in (python, "-m", "gpumem", "plan", "--card", "16GiB", *how, "--", program)], cwd=tmp_path,
        env=harness.clean_environment({"PYTHONPATH": str(harness.ROOT / "python")}),
    )  # fmt: skip
    until(lambda: list(tmp_path.glob("*.pid")), "a program")
    thread = at(int(name) for name in os.listdir(f"/proc/{process.pid}/task"))
    assert ctypes.CDLL(None).tgkill(process.pid, thread, signal.SIGTERM) == 0
    assert process.wait(timeout=WATCHDOG) == 128 + signal.SIGTERM
    started = [file.stem for file in tmp_path.glob("*.pid")]
    assert started and not any(os.path.exists(f"/proc/{pid}") for pid in started)
