"""The zoo: programs that end, multiply and leave their calls in every way, each with and without the recorder with
the same effect. Each leaves a capture that equals the simulator's books to the byte.

GPUMEM_ZOO_ROUNDS=50 runs each of them 50 times (docs/measured/zoo.md). Further programs: test_zoo_places.py (paths
of captures, and processes without permissions), test_zoo_kills.py, test_e2e_processes.py.

What breaks these tests: a call left by longjmp that seems to continue, a lock that is held in a forked child, a
destructor of thread-local state, a hook that needs much stack, an unwinder that reads a library while it is
unloaded, any code at exit while other threads record, or a frame walked after the interpreter has ended."""

import signal

import harness
import pytest
import zoo
from lanes import lanes


@pytest.fixture(params=range(zoo.ROUNDS), autouse=True)
def _round(request):
    """Each round is a separate test."""


ENDINGS = {
    "segv": -signal.SIGSEGV, "kill": -signal.SIGKILL, "abort in a thread": -signal.SIGABRT,
    "reporter": 13, "jumps back": 14, "little stack": 14, "overflow": -signal.SIGSEGV,
}


@pytest.mark.parametrize("how", ENDINGS)
def test_endings(how, build_c, tmp_path):
    client = build_c("zoo/endings.c", "-ldl", "-pthread")
    done = zoo.live_together(tmp_path / "with", [client, how], ENDINGS[how])
    zoo.assert_exact(tmp_path / "with" / "report.bin", done.stdout)


BUSY_ENDINGS = {"segv": -signal.SIGSEGV, "kill": -signal.SIGKILL, "abort": -signal.SIGABRT}


@pytest.mark.parametrize("how", BUSY_ENDINGS)
def test_endings_while_others_allocate(how, build_c, tmp_path):
    """Every recorded event is in the capture; only a call in progress may be missing."""
    client = build_c("zoo/endings.c", "-ldl", "-pthread")
    zoo.live_together(
        tmp_path / "with", [client, f"{how} while others allocate"], BUSY_ENDINGS[how]
    )
    zoo.assert_nothing_lost(tmp_path / "with" / "report.bin")


def test_200_threads(build_c, tmp_path):
    client = build_c("zoo/threads.c", "-ldl", "-pthread")
    done = zoo.live_together(tmp_path / "with", [client], 15)
    assert zoo.last_books(done.stdout)[1] == sum(range(1, 201)) * 20 * 1024
    zoo.assert_exact(tmp_path / "with" / "report.bin", done.stdout)


@pytest.mark.parametrize("how", ("exception", "longjmp"))
def test_calls_that_are_left(how, build_c, tmp_path):
    """What stands behind the recorder leaves its calls; each later call is seen for what it is."""
    target = harness.SIMULATOR / "libcuda.so.1"
    harness.run([harness.WITH_SIMULATOR, "true"])
    thrower = build_c("zoo/thrower.cpp", "-shared", "-fPIC", "-ldl")
    client = build_c(
        "zoo/jumps.cpp", "-Wl,--no-as-needed", thrower, target, f"-Wl,-rpath,{thrower.parent}", "-ldl",
    )
    done = zoo.live_together(
        tmp_path / "with", [client, how], 16, recorder_env=zoo.preloading(harness.LIBRARY, thrower)
    )
    assert "left 200 calls\n" in done.stdout
    zoo.assert_exact(tmp_path / "with" / "report.bin", done.stdout)
    names = harness.analyze_json("report", "--all", tmp_path / "with" / "report.bin")["calls"]
    calls = {row["function"]: row["calls"] for row in names}
    assert (calls["cuMemAlloc_v2"], calls["cuMemFree_v2"]) == (301, 200)


@pytest.mark.parametrize("how", ("vfork", "spawn", "thread", "generations", "confined"))
def test_children(how, build_c, tmp_path):
    client = build_c("zoo/children.c", "-ldl", "-pthread")
    done = zoo.live_together(tmp_path / "with", [client, how], 18)
    assert [path.name for path in (tmp_path / "with").glob("report*")] == ["report.bin"]
    if how == "thread":
        zoo.assert_whole(tmp_path / "with" / "report.bin")
    else:
        zoo.assert_exact(tmp_path / "with" / "report.bin", done.stdout)


def test_a_daemon(build_c, tmp_path):
    """It closes all descriptors and takes their numbers for its own files: they stay empty, and the capture
    goes where it was begun."""
    for folder in (tmp_path / "with", tmp_path / "with.without"):
        (folder / "daemon").mkdir(parents=True, exist_ok=True)
    client = build_c("zoo/children.c", "-ldl", "-pthread")
    done = zoo.live_together(
        tmp_path / "with", [client, "daemon"], 18, recorder_env={"GPUMEM_RING_SLOTS": "1024"}
    )
    assert (tmp_path / "with" / "daemon" / "data").read_bytes() == b""
    zoo.assert_exact(tmp_path / "with" / "daemon" / "report.bin", done.stdout)


def test_libraries_unloaded_while_others_allocate(build_c, tmp_path):
    plugins = [
        build_c("zoo/plugin.c", "-shared", "-fPIC", f"-DNUMBER={number}") for number in range(3)
    ]
    client = build_c("zoo/unloads.c", "-ldl", "-pthread")
    done = zoo.live_together(tmp_path / "with", [client, *plugins], 20)
    assert zoo.last_books(done.stdout)[0] == 8000
    zoo.assert_whole(tmp_path / "with" / "report.bin")
    assert zoo.driver_of(tmp_path / "with" / "report.bin")["live_bytes"] == 8000


@pytest.mark.parametrize("more", ((), ("cached",)), ids=("mapped each time", "cached"))
@pytest.mark.parametrize("what", ("hooks", "driver"))
@pytest.mark.parametrize("when", ("early", "late"))
def test_functions_that_are_patched_in_place(when, what, more, build_c, tmp_path):
    """Code that replaces the first bytes of the allocation functions, as ComfyUI's comfy-aimdo does, before CUDA is
    initialised and after: each byte is counted once, and the account names whose functions are patched at the end."""
    client = build_c("zoo/patches.c", "-ldl", "-pthread")
    done = zoo.live_together(tmp_path / "with", [client, when, what, *more], 21)
    report = tmp_path / "with" / "report.bin"
    zoo.assert_exact(report, done.stdout)
    notes = harness.analyze_json("report", "--all", report)["notes"]
    whose = {"hooks": "recorder", "driver": "driver"}[what]
    patched = [note for note in notes if f"the program itself has patched the {whose}'s cuMemAlloc" in note]
    assert len(patched) == (when == "early"), notes
    assert len(notes) == len(patched), notes


def test_memory_whose_unmapping_was_missed(build_c, tmp_path):
    """The driver gives an address to an allocation that is still mapped as far as the recorder has seen. A query of the
    driver shows that it is not, so the allocation is no alias of the mapped memory."""
    client = build_c("zoo/missed_unmap.c", "-ldl")
    done = zoo.live_together(tmp_path / "with", [client], 21)
    report = tmp_path / "with" / "report.bin"
    assert zoo.driver_of(report)["live_bytes"] == zoo.last_books(done.stdout)[0]
    account = harness.analyze("report", "--all", "--format", "json", report, check=False)
    assert "partial: 1 releases were not seen (their addresses were allocated again)" in account.stderr


def test_a_failed_call_does_not_wait_for_its_report(build_c, simulate, tmp_path):
    """The report is made by another thread, and here can be completed only after the call has returned. The one for all
    of them is printed, and they are in the capture."""
    slow = build_c("zoo/slow_nvml.c", "-shared", "-fPIC", "-ldl", "-Wl,-soname,libnvidia-ml.so.1")
    client = build_c("zoo/slow_report.c", "-ldl", "-pthread")
    # Loaded by path, so that with-simulator has made it before.
    harness.run([harness.WITH_SIMULATOR, "true"])
    env = {
        "LD_PRELOAD": f"{harness.LIBRARY}:{slow}", "GPUMEM_TEST_NVML": str(harness.SIMULATOR / "libnvidia-ml.so.1"),
    }
    done = simulate([client], cwd=tmp_path, env=env, check=False)
    assert done.returncode == 21 and done.stdout.count("failed") == 4, harness.described(done)
    assert done.stderr.count("gpumem: out of memory on GPU 0") == 1, done.stderr
    assert done.stderr.count("out of memory again") == 1, done.stderr
    failures = harness.analyze_json("oom", tmp_path / "report.bin")["failures"]
    assert len(failures) == 4
    zoo.assert_exact(tmp_path / "report.bin", done.stdout)


ALLOCATORS = {
    "jemalloc": ("libjemalloc2", "libjemalloc.so.2"),
    "tcmalloc": ("libtcmalloc-minimal4", "libtcmalloc_minimal.so.4"),
}


@pytest.mark.parametrize("first", (True, False), ids=("before us", "after us"))
@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_beside_another_allocator(allocator, first, build_c, tmp_path):
    library = zoo.debian_library(*ALLOCATORS[allocator])
    order = [library, harness.LIBRARY]
    client = build_c("hook_threads.c", "-ldl", "-pthread")
    done = zoo.live_together(
        tmp_path / "with", [client, "join"], 0,
        recorder_env=zoo.preloading(*(order if first else reversed(order))),
    )
    assert zoo.last_books(done.stdout)[0] > 0
    zoo.assert_whole(tmp_path / "with" / "report.bin")
    assert zoo.driver_of(tmp_path / "with" / "report.bin")["live_bytes"] == zoo.last_books(done.stdout)[0]


@pytest.mark.parametrize("how", ("back", "forth", "still"))
def test_clocks_that_jump(how, build_c, tmp_path):
    """Another interposer puts every clock back or forward by hours, or stops it: the recorder asks the C library's."""
    clock = build_c("zoo/shifted_clock.c", "-shared", "-fPIC", "-ldl")
    client = build_c("hook_threads.c", "-ldl", "-pthread")
    zoo.live_together(
        tmp_path / "with", [client, "join"], 0,
        recorder_env={
            **zoo.preloading(clock, harness.LIBRARY), "CLOCK_SHIFT": how,
            "GPUMEM_RING_SLOTS": "4096",
        },
    )
    state = zoo.assert_whole(tmp_path / "with" / "report.bin")
    assert state["events"] > 63_000
    for view in ([], ["ledger"], ["changes"]):
        done = harness.analyze(*view, tmp_path / "with" / "report.bin", check=False)
        assert done.returncode == 0, harness.described(done)


def test_a_clock_of_its_own(build_c, tmp_path):
    """A time namespace: the monotonic clock is ahead by years, as after a long run of the machine."""
    namespace = ["unshare", "--fork", "--time", "--monotonic", "300000000", "--boottime", "300000000"]
    if harness.run([*namespace, "true"], check=False).returncode != 0:
        pytest.skip("no time namespaces may be made here")
    client = build_c("zoo/endings.c", "-ldl", "-pthread")
    done = zoo.live_together(tmp_path / "with", [*namespace, client, "jumps back"], 14)
    zoo.assert_exact(tmp_path / "with" / "report.bin", done.stdout)


PYTHON = {
    "daemon threads": 22, "os._exit while threads allocate": 22, "os._exit in a thread": 23,
    "atexit": 22, "exception": 1, "abort": -signal.SIGABRT, "segv": -signal.SIGSEGV, "fork": 22,
    "spawn": 22, "forkserver": 22, "children that die": 22,
}
# Programs that end while threads allocate cannot print what is live then.
UNTOLD = ("daemon threads", "os._exit while threads allocate")


@pytest.mark.parametrize("how", PYTHON)
def test_python(how, python_env, tmp_path):
    done = zoo.live_together(
        tmp_path / "with", [python_env("py312"), zoo.ZOO / "python_ends.py", how], PYTHON[how],
        drop=("Current thread 0x",),
    )
    report = tmp_path / "with" / "report.bin"
    if how in UNTOLD:
        zoo.assert_nothing_lost(report)
    else:
        zoo.assert_exact(report, done.stdout)
    children = [path for path in (tmp_path / "with").glob("report*") if path != report]
    if how not in ("spawn", "forkserver"):
        assert children == []
        return
    sizes = [zoo.driver_of(path)["live_bytes"] for path in children if zoo.assert_nothing_lost(path)]
    assert sum(sizes) == 2 * 4096, "what the children allocated"


# Not 3.10: it crashes, also by itself, if a thread gets the GIL between the end of the interpreter and that of the
# process, and what the recorder does at the end makes that time longer (docs/measured/zoo.md: open).
@pytest.mark.parametrize("version", lanes(("py314", "py38", "py311", "py313")))
def test_daemon_threads_of_every_python(version, python_env, tmp_path):
    zoo.live_together(
        tmp_path / "with", [python_env(version), zoo.ZOO / "python_ends.py", "daemon threads"], 22
    )
    zoo.assert_nothing_lost(tmp_path / "with" / "report.bin")
