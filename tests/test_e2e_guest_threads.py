"""The recorder's own threads: they take no processor, scheduling policy or signal from the program, and do not call
NVML once the process ends."""

import os
import signal
import sys

import harness
import pytest

SCHED_OTHER = 0
# Those that a thread's own instructions cause: SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV.
# SIGKILL, SIGSTOP, and the two that the C library keeps for itself.
NEVER_BLOCKED = {9, 19, 32, 33}
# By GPUMEM_RING.
THREADS = {
    "auto": {"gpumem-drain", "gpumem-file", "gpumem-nvml"},
    "file": {"gpumem-file", "gpumem-lines", "gpumem-nvml"},
}


@pytest.fixture
def threads(build_c, simulate):
    """threads("fifo") runs tests/workloads/guest_threads.c: its processors when it began, and policy, processors and
    blocked signals of each of the recorder's threads."""

    def run(how, *flags, ring="auto", env=None):
        client = build_c("guest_threads.c", *flags, "-ldl")
        done = simulate([client, how], preload=True, env={"GPUMEM_QUIET": "1", "GPUMEM_RING": ring, **(env or {})})
        assert done.stderr == "", harness.described(done)
        first, *lines = done.stdout.splitlines()
        if lines == ["not permitted"]:
            pytest.skip("this user may not set SCHED_FIFO")
        found = {}
        for line in lines:
            name, policy, processors, blocked = line.split()
            found[name] = int(policy), processors, int(blocked, 16)
        # The short-lived thread that removes old rings follows the same rules.
        assert set(found) - {"gpumem-sweep"} == THREADS[ring]
        return first.split()[1], found

    return run


def processors_here():
    """This process's processors, as the kernel writes them."""
    with open("/proc/self/status") as status:
        return next(line.split()[1] for line in status if line.startswith("Cpus_allowed_list"))


needs_two = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor: none to be pinned to")


@needs_two
@pytest.mark.parametrize("how", ("fifo", "pinned"))
def test_a_pinned_real_time_thread_keeps_its_processor_to_itself(how, threads):
    """The thread that opens the capture is pinned, and real-time: the recorder's have all processors and the ordinary
    policy."""
    first, found = threads(how)
    assert first == processors_here()
    for policy, processors, _ in found.values():
        assert (policy, processors) == (SCHED_OTHER, first)


@needs_two
def test_openmp_binds_none_of_the_recorders_threads(threads):
    """OMP_PROC_BIND pins the program's threads, the first one before any constructor of the recorder's runs."""
    first, found = threads("openmp", "-fopenmp", env={"OMP_PROC_BIND": "close"})
    assert first != processors_here()
    for _, processors, _ in found.values():
        assert processors == processors_here()


@pytest.mark.parametrize("ring", THREADS)
def test_threads_block_all_signals_but_lost_memory(ring, threads):
    """Also those that a fault raises: they can be sent to a process that waits for them."""
    _, found = threads("pinned", ring=ring)
    expected = set(range(1, 65)) - {signal.SIGBUS} - NEVER_BLOCKED
    for _, _, blocked in found.values():
        assert {signal for signal in range(1, 65) if blocked >> (signal - 1) & 1} == expected


@pytest.fixture
def late(build_c, simulate):
    """late(...) runs a program whose NVML is tests/workloads/late_nvml.c: the lines of its destructor, which runs
    after the recorder's exit handler."""

    def run(**env):
        client = build_c("implicit.c", "-ldl")
        nvml = build_c("late_nvml.c", "-shared", "-fPIC", "-pthread", "-ldl", "-Wl,-soname,libnvidia-ml.so.1")
        harness.simulate(["true"])  # makes the simulator's libraries, which are loaded by path
        env.update(
            GPUMEM_QUIET="1",
            LD_PRELOAD=f"{harness.LIBRARY}:{nvml}",
            GPUMEM_TEST_NVML=str(harness.SIMULATOR / "libnvidia-ml.so.1"),
        )
        done = simulate([client, "context", "block"], env=env)
        assert done.stderr == "", harness.described(done)
        return [line for line in done.stdout.splitlines() if line.startswith(("late", "hung"))]

    return run


def test_nvml_is_not_called_while_other_libraries_are_taken_down(late):
    """Allocations and modules of late destructors request readings, but no reading is made."""
    assert late() == ["late 0"]


@pytest.mark.parametrize(
    "function",
    (
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetGraphicsRunningProcesses_v3",
    ),
)
def test_a_call_that_hangs_is_the_last_one(function, late):
    """The process does not wait for NVML permanently. The thread that returns from it later makes no more calls."""
    assert late(GPUMEM_TEST_HANG=function) == ["hung 1", "late 0"]


SCOPES = """
import ctypes
gpumem, cuda = ctypes.CDLL(None), ctypes.CDLL("libcuda.so.1")
begin, context, block = gpumem.gpumem_scope_begin, ctypes.c_void_p(), ctypes.c_uint64()
begin.restype = ctypes.c_uint64
early = begin(b"before the capture")
assert cuda.cuInit(0) == cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(1000)) == 0
for number in early, begin(b"after it"):
    for name in "reset", "end", "forget":
        call = getattr(gpumem, "gpumem_scope_" + name)
        call.argtypes = [ctypes.c_uint64]
        call(number)
gpumem.gpumem_mark(b"a mark")
gpumem.gpumem_step()
"""

def test_no_lock_is_held_by_what_may_wait(simulate, tmp_path):
    """A thread of the program that wants a lock of the recorder's never waits behind one that waits for the ring's
    drain or for the driver: with debug assertions, such a wait panics. Other tests make all other calls with the same
    library, and compare stderr."""
    assert b"a lock is held by what may wait" in harness.LIBRARY.read_bytes(), "it is built without debug assertions"
    done = simulate([sys.executable, "-c", SCOPES], preload=True, env={"GPUMEM_QUIET": "1"})
    assert done.stderr == "", harness.described(done)
    assert (tmp_path / "report.bin").is_file()
