"""Reports when an allocation fails because memory ran out: at once on stderr, and later by `gpumem-analyze oom`."""

import functools
import json
import re
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import harness
import pytest

MIB = 1 << 20
MEMORY = "1536MiB"
COST = 512 * MIB  # of a context
SCRIPT = harness.WORKLOADS / "out_of_memory.py"
# Ways to run out of memory: what others use of the card; the cause, the card and the request in the post-mortem.
WAYS = {
    "full": (0, "activations[0…39], local of full (out_of_memory.py:{blocks(1, 600)}) keeps 400 MiB",
             "1.18 GiB of 1.50 GiB in use, 1.18 GiB by this process, 324 MiB free", "600 MiB (629,145,600 bytes)"),
    "others": (1000, "the request had no room: other processes hold 1000 MiB of 1.50 GiB on this GPU, this process 512 MiB",
               "1.48 GiB of 1.50 GiB in use, 1000 MiB by others, 24.0 MiB free",
               "100 MiB (104,857,600 bytes)"),
    "fragmentation": (0, "fragmentation: 528 MiB is free in PyTorch's cache in 48 blocks, the largest 11.0 MiB, and 64.0 MiB "
                      "on the card", "1.44 GiB of 1.50 GiB in use, 1.44 GiB by this process, 64.0 MiB free",
                      "200 MiB (209,715,200 bytes)"),
    "own_limit": (0, "PyTorch's own memory limit (set_per_process_memory_fraction): 350 MiB is reserved, 674 MiB is free on the card",
                  "862 MiB of 1.50 GiB in use, 862 MiB by this process, 674 MiB free", "50.0 MiB (52,428,800 bytes)"),
    "not_memory": (0, "the card is not full: 1.00 GiB is free, but the driver refused the request",
                   "512 MiB of 1.50 GiB in use, 512 MiB by this process, 1.00 GiB free", "300 MiB (314,572,800 bytes)"),
}


def statements(text):
    """Joins a statement's continuation lines, which begin with 16 blanks."""
    return re.sub(r"\n {16}", " ", text).splitlines()


def told(stderr):
    """The post-mortems on stderr: each is one line of gpumem's and the indented ones after it."""
    found, inside = [], False
    for line in stderr.splitlines():
        if line.startswith("gpumem: out of memory on"):
            found.append([line.removeprefix("gpumem: ")])
            inside = True
        elif inside and line.startswith("  "):
            found[-1].append(line)
        else:
            inside = False
    return found


# Allocates at line 7, and requests more than the card has at line 9, as often as its argument says.
DRIVER = (
    "import ctypes, os, signal, sys\n"
    "cuda = ctypes.CDLL('libcuda.so.1')\n"
    "context, block = ctypes.c_void_p(), ctypes.c_uint64()\n"
    "assert cuda.cuInit(0) == 0\n"
    "assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0\n"
    "assert cuda.cuCtxSetCurrent(context) == 0\n"
    "assert cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(100 << 20)) == 0\n"
    "for _ in range(int(sys.argv[1])):\n"
    "    assert cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(1 << 40)) == 2\n"
)


@dataclass(frozen=True)
class Ran:
    done: harness.Done
    report: Path


@pytest.fixture(scope="module")
def runs_out(python_env, tmp_path_factory):
    """runs_out(how) is a run of tests/workloads/out_of_memory.py with the library, the same for all tests."""

    @functools.lru_cache(maxsize=None)
    def run(*how, preload=True):
        folder = tmp_path_factory.mktemp(how[0])
        done = harness.simulate(
            [python_env("torch215"), SCRIPT, *how], memory=MEMORY, preload=preload, cwd=folder, check="die" not in how,
            env={"GPUMEM_SIM_OTHER_BYTES": f"{WAYS.get(how[0], (0,))[0]}MiB"},
        )
        return Ran(done, folder / "report.bin")

    return run


@pytest.fixture
def fails(simulate, tmp_path):
    """fails(times) is a run of DRIVER, without PyTorch."""

    def run(times, **env):
        done = simulate([sys.executable, "-c", DRIVER, str(times)], preload=True, env=env)
        return Ran(done, tmp_path / "report.bin")

    return run


def number_of(text):
    return next(n for n, line in enumerate(SCRIPT.read_text().splitlines(), 1) if text in line)


@pytest.mark.parametrize("how", WAYS)
def test_the_cause_the_line_and_the_holders_are_told_at_once(runs_out, how):
    [lines] = told(runs_out(how).done.stderr)
    _, cause, card, asked = WAYS[how]
    cause = re.sub(r"\{(.*?)\}", lambda part: str(number_of(part[1])), cause)
    assert f" {asked} requested through PyTorch's cache" in lines[0]
    assert re.fullmatch(rf"  by       \S*{SCRIPT.name}:\d+  blocks", lines[1])
    assert lines[2].startswith(f"  cause    {cause}")
    assert lines[3].startswith("  to try   ") and lines[4] == f"  card     {card}"
    assert "gpumem-analyze oom report.bin" in lines[-1]
    assert len(lines) <= 50


def test_pytorchs_own_message_is_the_same(runs_out):
    """Except for the process number."""
    number = re.compile(r"[Pp]rocess \d+")
    with_it, alone = (number.sub("process N", runs_out("full", preload=preload).done.stdout) for preload in (True, False))
    assert with_it == alone and "CAUGHT" in alone


def test_who_holds_the_memory_is_told_to_the_byte(runs_out, analyze_json):
    ran = runs_out("full")
    [lines] = told(ran.done.stderr)
    rows = [line.split() for line in lines[5:-1] if "share" not in line]
    assert [row[:6] for row in rows] == [
        ["400", "MiB", "57", "%", "40", "activations[0…39],"], ["300", "MiB", "43", "%", "3", "weights[0…2],"],
        ["700", "MiB", "58", "%", "43", rows[2][5]], ["512", "MiB", "42", "%", "CUDA", "contexts"],
    ]  # fmt: skip
    assert rows[2][5].endswith(f"{SCRIPT.name}:{number_of('return [torch.empty(')}") and rows[2][6] == "blocks"
    report = analyze_json("oom", ran.report)
    tensors = sum(row["bytes"] for row in report["tensor"])
    assert tensors == (3 * 100 + 40 * 10) * MIB
    assert sum(row["blocks"] for row in report["tensor"]) == 43
    ledger = report["ledger"]
    assert sum(row["bytes"] for row in ledger["rows"]) == ledger["bytes"] == tensors + COST
    assert ledger["unexplained_bytes"] == 0
    # The driver refused, PyTorch tried again, and then it failed: one failure.
    [failure] = report["failures"]
    assert (failure["level"], failure["exception"], failure["refusals"]) == ("tensor", True, 2)
    assert (report["number"], report["count"], report["answered"]) == (1, 1, 0)
    assert failure["postmortem"].splitlines() == lines


def test_what_backward_allocated_goes_by_the_line_of_its_forward(runs_out, analyze_json):
    ran = runs_out("backward")
    [lines] = told(ran.done.stderr)
    script = SCRIPT.read_text().splitlines()
    line = next(n for n, text in enumerate(script, 1) if ".backward()" in text)
    [row] = [row for row in analyze_json("oom", ran.report)["tensor"] if row["line"] == line]
    assert sum(part["bytes"] for part in harness.parts_of([row]) if part.get("node") == "MulBackward0") == 50 * MIB
    # The figure on stderr is that of the whole line.
    [printed] = [text.split() for text in lines if text.endswith((f"{SCRIPT.name}:{line}", f"{SCRIPT.name}:{line}  {row['function']}"))]
    assert (float(printed[0]), printed[1]) == (pytest.approx(row["bytes"] / MIB, abs=0.5), "MiB")


def test_it_is_in_the_capture_of_a_process_that_was_killed_right_after(runs_out, analyze_json):
    ran = runs_out("full", "die")
    assert ran.done.returncode == -signal.SIGKILL
    [lines] = told(ran.done.stderr)
    assert analyze_json("oom", ran.report)["failures"][-1]["postmortem"].splitlines() == lines
    # The judge's cause is shown once.
    text = harness.analyze("oom", ran.report).stdout
    [cause] = [line for line in lines if line.startswith("  cause ")]
    assert " ".join(text.split()).count(cause.removeprefix("  cause").strip()) == 1
    assert "Lines that owned the tensor level at the failure" in text


def test_a_bounded_capture_keeps_it(fails, analyze_json):
    ran = fails(1, GPUMEM_BOUNDED="64MiB")
    [lines] = told(ran.done.stderr)
    assert analyze_json("oom", ran.report)["failures"][-1]["postmortem"].splitlines() == lines


@pytest.mark.parametrize(
    "env, expected",
    [
        ({"GPUMEM_POSTMORTEM": "off"}, 0),
        ({"GPUMEM_QUIET": "1"}, 0),
        ({"GPUMEM_QUIET": "1", "GPUMEM_POSTMORTEM": "on"}, 1),
        ({"GPUMEM_STACKS": "off"}, 1),
        ({"GPUMEM_STACKS": "native"}, 1),
    ],
)
def test_it_is_told_or_not_as_the_options_say(fails, analyze_json, env, expected):
    ran = fails(1, **env)
    assert len(told(ran.done.stderr)) == expected
    # Silent or not, the failure is in the capture.
    assert analyze_json("oom", ran.report)["count"] == 1


def test_a_program_that_lives_on_failures_is_not_drowned(fails, analyze_json):
    """One is reported in full, then one line announces that no more are, as all have the same reason."""
    ran = fails(7)
    done = ran.done
    [lines] = told(done.stderr)
    assert done.stderr.count("out of memory again") == 1
    assert lines[0].endswith("1.00 TiB (1,099,511,627,776 bytes) requested through cuMemAlloc_v2")
    assert lines[1] == "  by       <string>:9  <module>"
    assert lines[2].startswith("  cause    the request alone is larger than the card: 1.00 TiB of ")
    assert any(re.fullmatch(r" +100 MiB +\d+ % +1  <string>:7  <module>", line) for line in lines)
    report = analyze_json("oom", ran.report)
    assert (report["count"], report["answered"], report["number"]) == (7, 0, 7)
    assert [one["postmortem"] is not None for one in report["failures"]] == [True] + [False] * 6


def test_attempts_for_one_reason_share_a_report(simulate, python_env, analyze_json, tmp_path):
    """Another reason at the same line has a report."""
    code = (
        "import torch\n"
        "def fails(bytes):\n"
        "    try:\n"
        "        return torch.empty(bytes, dtype=torch.uint8, device='cuda')\n"
        "    except torch.OutOfMemoryError:\n"
        "        return None\n"
        "fails(1 << 50), fails(1 << 51)\n"
        "kept = [torch.empty(200 << 20, dtype=torch.uint8, device='cuda') for _ in range(6)]\n"
        "fails(500 << 20), fails(1 << 50)\n"
    )
    done = simulate([python_env("torch215"), "-c", code], preload=True, env={"GPUMEM_LIMIT": "2GiB"}, cwd=tmp_path)
    posts = told(done.stderr)
    assert [post[1].split()[1] for post in posts] == ["<string>:4"] * 2, harness.described(done)
    assert "larger than the limit" in posts[0][2] and "kept[0…5], global of __main__ keeps" in posts[1][2]
    assert done.stderr.count("out of memory again") == 1
    failures = analyze_json("oom", tmp_path / "report.bin")["failures"]
    assert [one["postmortem"] is not None for one in failures] == [True, False, True, False]


def endings(text):
    """The lines about the failure that ended a program."""
    return [line for line in text.splitlines() if "nothing was allocated after" in line or line.startswith("  ended ")]


def test_the_failure_that_ended_the_program_is_reported_last(simulate, python_env, analyze_json, tmp_path):
    """Three are reported when they happen, and survived; the fourth is reported at the end."""
    survived = (
        "try: torch.empty(1 << 50, dtype=torch.uint8, device='cuda')\n"
        "except torch.OutOfMemoryError: torch.ones(1, device='cuda')\n"
    )
    code = (
        f"import torch\n{survived * 3}"
        "kept = [torch.empty(200 << 20, dtype=torch.uint8, device='cuda') for _ in range(60)]\n"
    )
    done = simulate([python_env("torch215"), "-c", code], preload=True, env={"GPUMEM_LIMIT": "2GiB"}, cwd=tmp_path, check=False)
    posts = told(done.stderr)
    assert done.returncode == 1, harness.described(done)
    assert endings(done.stderr) == ["  ended    the program went on after the failures above, and not after this one"], done.stderr
    assert posts[-1][1] == endings(done.stderr)[0] and posts[-1][2] == "  by       <string>:8  <module>"
    assert len(posts) == 4 and done.stderr.index("Traceback") < done.stderr.index("  ended ")
    found = analyze_json("oom", tmp_path / "report.bin")
    assert found["cause"]["what"] in posts[-1][3] and found["failures"][-1]["postmortem"].splitlines() == posts[-1]
    assert (found["number"], found["cause"]["survived"]) == (found["count"], False)


def test_the_report_that_is_also_that_of_the_last_failure_is_named(simulate, python_env, tmp_path):
    code = (
        "import torch\n"
        "kept = [torch.empty(200 << 20, dtype=torch.uint8, device='cuda') for _ in range(6)]\n"
        "def one(): torch.empty(700 << 20, dtype=torch.uint8, device='cuda')\n"
        "def other(): torch.empty(900 << 20, dtype=torch.uint8, device='cuda')\n"
        "for function in one, other:\n"
        "    try: function()\n"
        "    except torch.OutOfMemoryError: kept.append(torch.ones(8, device='cuda'))\n"
        "one()\n"
    )
    done = simulate([python_env("torch215"), "-c", code], preload=True, env={"GPUMEM_LIMIT": "2GiB"}, cwd=tmp_path, check=False)
    assert len(told(done.stderr)) == 2, done.stderr
    assert endings(done.stderr) == ["gpumem: nothing was allocated after the failure of 700 MiB: see report 1 of 2 above"]


def test_the_failure_that_ended_the_program_comes_before_those_of_its_end(simulate, python_env, analyze_json, tmp_path):
    """A handler of the program's end fails, too: neither stderr nor the report begins with that."""
    code = (
        "import atexit, torch\n"
        "kept = [torch.empty(200 << 20, dtype=torch.uint8, device='cuda') for _ in range(6)]\n"
        "def save():\n"
        "    for n in range(3):\n"
        "        small = torch.ones(8, device='cuda')\n"
        "        try: torch.empty((700 + n) << 20, dtype=torch.uint8, device='cuda')\n"
        "        except torch.OutOfMemoryError: pass\n"
        "atexit.register(save)\n"
        "torch.empty(500 << 20, dtype=torch.uint8, device='cuda')\n"
    )
    done = simulate([python_env("torch215"), "-c", code], preload=True, env={"GPUMEM_LIMIT": "2GiB"}, cwd=tmp_path, check=False)
    [lines] = told(done.stderr)
    assert lines[1] == "  by       <string>:9  <module>", harness.described(done)
    assert endings(done.stderr) == []
    report = tmp_path / "report.bin"
    found = analyze_json("oom", report)
    assert (found["number"], found["count"], found["cause"]["survived"]) == (1, 4, False)
    assert harness.analyze(report).stdout.startswith("OUT OF MEMORY   500 MiB requested at <string>:9")


def test_attempts_of_a_convolution_have_one_line(simulate, python_env, analyze_json, tmp_path):
    code = (
        "import torch\n"
        "from torch.nn import Conv2d, ReLU\n"
        "layers = [Conv2d(3, 24, 3, padding=1), ReLU(), Conv2d(24, 24, 3, padding=1), ReLU(), Conv2d(24, 24, 3, padding=1)]\n"
        "net = torch.nn.Sequential(*layers).cuda()\n"
        "kept = []\n"
        "for step in range(600):\n"
        "    x = torch.randn(24, 3, 128, 128, device='cuda')\n"
        "    net(x).mean((2, 3)).square().mean().backward()\n"
        "    kept.append(torch.tanh(x[:, :1]).detach())\n"
    )
    done = simulate([python_env("torch215"), "-c", code], preload=True, env={"GPUMEM_LIMIT": "848MiB"}, cwd=tmp_path, check=False)
    lines = [line for line in done.stderr.splitlines() if "workspace of a convolution" in line]
    assert lines and all(line.startswith("gpumem: ") and "PyTorch tries another algorithm" in line for line in lines), done.stderr
    posts = told(done.stderr)
    assert len(posts) == 1 and "kept[0" in posts[0][2], done.stderr
    found = analyze_json("oom", tmp_path / "report.bin")
    assert found["count"] > 1 and found["number"] == found["count"]


def test_refusals_that_pytorch_answered_are_no_failures(simulate, python_env, analyze_json, tmp_path):
    """A cache that grows until the program dies: before that, PyTorch repeatedly freed cached segments."""
    code = (
        "import torch\n"
        "cache, n, mib = [], 0, 1 << 20\n"
        "def make(size):\n"
        "    return torch.empty(size, dtype=torch.uint8, device='cuda')\n"
        "while True:\n"
        "    n += 1\n"
        "    make((30 + n) * mib)  # too large for all that is cached\n"
        "    cache.append(make(10 * mib))\n"
    )
    done = simulate(
        [python_env("torch215"), "-c", code], preload=True, env={"GPUMEM_LIMIT": "2GiB"}, cwd=tmp_path, check=False
    )
    assert done.returncode == 1 and len(told(done.stderr)) == 1, harness.described(done)
    report = tmp_path / "report.bin"
    found = analyze_json("oom", report)
    [failure] = found["failures"]
    assert (failure["exception"], failure["number"], found["count"]) == (True, 1, 1)
    assert found["answered"] > 3, "the program is to provoke some"
    retries = f"{found['answered']} retries by PyTorch's allocator: "
    text = harness.analyze(report).stdout
    first, cause = statements(text)[:2]
    assert first.startswith("OUT OF MEMORY   ") and f"after the driver refused it {failure['refusals']} times" in first
    assert "earlier rounds are still live" in cause and retries in text
    said = harness.analyze("oom", report).stdout
    assert statements(said)[0] == first and retries in said
    assert analyze_json("report", "--all", report)["out_of_memory_events"] == 1
    for view in (("html", "-o", tmp_path / "page.html"), ("timeline", "-o", tmp_path / "t.svg"), ("report", "--hints")):
        harness.analyze(*view, report)
    assert analyze_json("timeline", report)["failure_count"] == 1


def test_a_run_without_failures_says_so(fails):
    report = fails(0).report
    assert harness.analyze("oom", report).stdout == "No allocation failed because memory ran out.\n"
    found = harness.analyze_json("oom", report)
    assert (found.pop("answered"), found.pop("count")) == (0, 0)
    assert found == {"failures": [], "tensor": [], "driver": [], "host": [], **dict.fromkeys(("number", "cause", "ledger"))}


def test_a_failure_that_is_not_there_is_refused(fails):
    wrong = harness.analyze("oom", "--failure", "9", fails(1).report, check=False)
    assert wrong.returncode == 1
    assert wrong.stderr.strip().endswith("failure 9 is not in the capture: use --failure 1, the only one")


@pytest.fixture
def full_card(simulate, python_env):
    """full_card(blocks, postmortem): what it takes to allocate that many blocks, and then to fail: seconds of elapsed
    time, and of processor time of all threads (one of the recorder's makes the report)."""
    code = (
        "import json, sys, time, torch\n"
        "def now():\n"
        "    return time.monotonic(), time.process_time()\n"
        "torch.empty(1, device='cuda')\n"
        "began = now()\n"
        "kept = [torch.empty(128, device='cuda') for _ in range(int(sys.argv[1]))]\n"
        "made = now()\n"
        "try:\n"
        "    torch.empty(1 << 40, dtype=torch.uint8, device='cuda')\n"
        "except torch.OutOfMemoryError:\n"
        "    failed = now()\n"
        "print(json.dumps([began, made, failed]))\n"
    )

    def run(blocks, postmortem, holders="off"):
        done = simulate(
            [python_env("torch215"), "-c", code, str(blocks)], preload=True,
            env={"GPUMEM_POSTMORTEM": postmortem, "GPUMEM_QUIET": "1", "GPUMEM_HOLDERS": holders},
        )
        if postmortem == "on":
            [lines] = told(done.stderr)
            assert any(f" {blocks:,}  <string>:6  " in line for line in lines), lines
        began, made, failed = json.loads(done.stdout)
        return [after - before for before, after in zip(began, made)], [after - before for before, after in zip(made, failed)]

    return run


def test_the_time_to_report_grows_no_faster_than_the_time_to_fill_the_card(full_card):
    """In processor time, relative to that of the allocations before it on the same machine: 1/18 at 100,000 blocks,
    1/50 at a million."""
    (_, made), (_, failed) = full_card(100_000, "on")
    print(f"{made:.3f} s for the blocks, {failed:.3f} s for the failure")
    assert failed <= made / 4, (made, failed)


def test_the_time_to_find_holders_is_that_of_the_allocations_at_most(full_card):
    """The same with the search for holders, where each block is a Python object: 0.9 of the allocations' time."""
    (_, made), (_, failed) = full_card(100_000, "on", "on")
    print(f"{made:.3f} s for the blocks, {failed:.3f} s for the failure")
    assert failed <= 2 * made, (made, failed)


@pytest.mark.slow
@pytest.mark.alone
def test_a_full_card_at_a_million_blocks_is_told_within_a_second(full_card):
    """The best of three runs, more than without the report."""
    found = []
    for _ in range(3):
        seconds = {postmortem: full_card(1_000_000, postmortem)[1][0] for postmortem in ("on", "off")}
        print(json.dumps(seconds))
        found.append(seconds["on"] - seconds["off"])
        if found[-1] < 1.0:
            return
    raise AssertionError(found)
