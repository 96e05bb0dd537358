"""A fault in the recorder's own memory, as when report.bin is truncated under the program: recording ends with one
line, and the program continues. Every other SIGBUS belongs to the program, however it installs its handlers: it sees
and gets the same as without the recorder.

tests/workloads/fault_host.c is the program; its arguments are its actions. What breaks these tests: a handler that
is not installed, or that handles a foreign fault; an answer of sigaction that names gpumem's handler; a stack, mask
or flags for the handler that differ from the kernel's."""

import os
import re
import signal

import harness
import pytest
from lanes import lanes

QUIET = {"GPUMEM_QUIET": "1"}
POINTERS = re.compile(r"0x[0-9a-f]{6,}")
LINE = re.compile(
    r"gpumem: recording ended: the memory of \S*report\.bin was lost \(its file was truncated, or its disk was removed\)\. "
    r"The program continues\.\n"
)
BUS = -signal.SIGBUS


@pytest.fixture
def both(simulate, tmp_path):
    """Runs a command without and with the recorder. What it prints and how it ends must be the same; `lines` of the
    recorder's come on stderr."""

    def both(command, code, lines=0, **options):
        runs = []
        for preload in (False, True):
            folder = tmp_path / ("recorded" if preload else "without")
            folder.mkdir()
            runs.append(simulate(command, preload=preload, check=False, cwd=folder, env=QUIET, **options))
        without, recorded = runs
        assert without.returncode == code, harness.described(without)
        assert (recorded.returncode, recorded.stdout) == (code, without.stdout), (
            harness.described(without) + harness.described(recorded)
        )
        rest, found = LINE.subn("", recorded.stderr)
        assert (found, POINTERS.sub("0x…", rest)) == (lines, POINTERS.sub("0x…", without.stderr)), recorded.stderr
        assert (tmp_path / "recorded" / "report.bin").is_file()
        return recorded

    return both


@pytest.fixture
def host(both, build_c):
    """The program with those steps; `lines` is 1 where the recorder's memory is lost."""
    program = build_c("fault_host.c", "-ldl", "-pthread")

    def host(steps, code=5):
        steps = steps.split()
        return both([program, *steps], code, lines=int("lose" in steps or "lose-at-work" in steps))

    return host


# The recorder's own memory


@pytest.mark.parametrize(
    "steps",
    (
        "cuda lose cuda cuda",
        "cuda lose ended cuda",  # the first to touch it is a thread of the recorder's
        "cuda lose cuda ended show fault-not-installed cuda",
        "sigaction cuda lose cuda fault sent show",
        "cuda sigaction lose cuda fault sent show",
        "cuda ignored lose cuda sent show",
        "onstack cuda lose cuda fault show",
        "cuda lose-at-work cuda",
        "cuda sigaction lose-at-work ended fault",
        "cuda raw taken-over lose cuda fault",
        "cuda raw-chaining lose ended cuda",  # noticed or not
    ),
)
def test_the_program_survives_the_loss_of_its_report(steps, host):
    steps = steps.replace("fault-not-installed", "signal fault")
    done = host(steps)
    assert done.stdout.endswith("end\n")


def test_nothing_is_recorded_after_it(simulate, build_c, tmp_path):
    """The capture records that events after the loss are unknown, and the ring's file is removed."""
    program = build_c("fault_host.c", "-ldl", "-pthread")
    simulate([program, "cuda", "lose", "ended", "cuda"], preload=True, check=False)
    assert os.listdir(tmp_path) == ["report.bin"]
    done = harness.analyze("check", tmp_path / "report.bin", check=False)
    assert done.returncode == 3 and "the ring of the process no longer exists" in done.stdout, done.stdout


# A SIGBUS of the program's own


INSTALLED = (
    "sigaction", "nodefer", "resethand", "onstack", "stack-unused", "__sigaction", "signal", "ssignal", "bsd_signal",
    "sysv_signal", "sigset",
)


@pytest.mark.parametrize(
    "form, order",
    lanes(
        [(form, order) for form in INSTALLED for order in ("both", "before", "after")],
        [*((form, "both") for form in INSTALLED), ("sigaction", "before"), ("sigaction", "after")],
    ),
)
def test_the_programs_handler_gets_its_faults(form, order, host):
    """Installed before the recorder's, after it, or both: the fault, on another thread too, and a signal that is sent."""
    first = {"before": [form, "cuda"], "after": ["cuda", form], "both": [form, "cuda", form]}[order]
    once = form in ("resethand", "sysv_signal")
    again = [form] if once else []
    host(" ".join([*first, "show", "fault", "show", *again, "in-thread", "show", *again, "sent", "show", "cuda"]))


UNHANDLED = (
    "cuda", "cuda default", "sigaction cuda default", "cuda sigaction default", "resethand cuda fault",
    "cuda resethand fault", "cuda lose ended",
)


@pytest.mark.parametrize(
    "steps, how",
    lanes(
        [(steps, how) for steps in UNHANDLED for how in ("fatal", "fatal-in-thread", "sent")],
        [*((steps, "fatal") for steps in UNHANDLED), ("cuda", "fatal-in-thread"), ("cuda", "sent")],
    ),
)
def test_without_a_handler_it_dies_by_it(steps, how, host):
    done = host(f"{steps} show {how}", code=BUS)
    assert "end" not in done.stdout and "it ran" not in done.stdout


@pytest.mark.parametrize("order", ("chaining cuda", "cuda chaining"))
def test_a_handler_that_restores_the_default_before_it(order, host):
    host(f"{order} show fatal", code=BUS)


@pytest.mark.parametrize("order", ("cuda ignored", "ignored cuda", "cuda sigignore"))
def test_a_signal_can_be_ignored_and_a_fault_cannot(order, host):
    assert host(f"{order} show sent fatal", code=BUS).stdout.endswith("sent: 0 calls\n")


@pytest.mark.parametrize("beneath", lanes(("sigaction", "signal", "ignored"), ("sigaction", "ignored")))
@pytest.mark.parametrize("order", ("{} cuda chaining", "cuda {} chaining", "{} chaining cuda"))
def test_a_handler_that_calls_the_one_before(beneath, order, host):
    """The one before is the program's own, never the recorder's."""
    fault = "" if beneath == "ignored" else "fault"
    host(f"{order.format(beneath)} show {fault} sent show lose cuda {fault} sent")


@pytest.mark.parametrize("steps", ("storm", "cuda storm", "cuda storm lose ended cuda"))
def test_handlers_that_are_exchanged_while_threads_fault(steps, host):
    """Every fault reaches one of them, and every answer is one of them whole."""
    assert "storm: 8000 faults\n" in host(f"{steps} cuda").stdout


@pytest.mark.parametrize("steps", ("cuda interrupts signal show restarts show", "interrupts cuda signal show sent"))
def test_siginterrupt(steps, host):
    host(steps)


def test_the_answers_of_the_old_forms(host):
    host("cuda error show signal signal default signal ignored sigset sighold show sigset show sighold sighold default")


@pytest.mark.parametrize("when", ("raw cuda", "cuda raw", "cuda raw taken-over"))
def test_a_handler_installed_by_a_system_call(when, host):
    """It counts as the program's, after a short time at most; sigaction returns and replaces it."""
    host(f"{when} show fault sent signal fault show")


@pytest.mark.parametrize("noticed", ("", "taken-over"))
@pytest.mark.parametrize("before", ("sigaction", "default", "signal"))
def test_a_handler_installed_by_a_system_call_that_hands_on(before, noticed, host):
    """It calls the handler that it has read from the kernel: the recorder's, which calls the program's."""
    ends = before == "default"
    host(f"{before} cuda raw-chaining {noticed} {'sent' if ends else 'fault sent show'}", code=BUS if ends else 5)


def test_a_signal_that_is_waited_for_is_left_to_who_waits(host):
    """All threads of the program's block it. The recorder's do not, and must hand it back."""
    host("cuda waited-for waited-for lose ended waited-for")


CHILDREN = (
    "cuda {} show", "cuda sigaction {} show fault sent", "signal cuda {} show fault sent",
    "cuda resethand {} show fault show", "cuda ignored {} show sent", "cuda raw {} fault sent",
    "cuda sigaction lose ended {} show fault sent",
)


@pytest.mark.parametrize(
    "steps, child",
    lanes(
        [(steps, child) for steps in CHILDREN for child in ("fork", "vfork", "spawn")],
        [*((steps, "fork") for steps in CHILDREN), (CHILDREN[1], "vfork"), (CHILDREN[1], "spawn")],
    ),
)
def test_children(child, steps, host):
    """A child that resets the disposition does so for itself alone."""
    host(steps.format(child))


@pytest.mark.parametrize("steps", ("another-signal", "another-signal cuda another-signal"))
def test_other_signals_are_left_alone(steps, simulate, build_c):
    program = build_c("fault_host.c", "-ldl", "-pthread")
    without, recorded = (
        simulate([program, *steps.split()], preload=preload, env=QUIET, check=False) for preload in (False, True)
    )
    assert without.returncode == 5 and "dlerror: libthat-is-not-there.so" in without.stdout
    assert (recorded.returncode, recorded.stdout, recorded.stderr) == (5, without.stdout, without.stderr)


@pytest.mark.parametrize("first", (True, False), ids=("before us", "after us"))
def test_beside_another_library_that_interposes_sigaction(first, simulate, build_c):
    """Each has its turn, once."""
    program = build_c("fault_host.c", "-ldl", "-pthread")
    other = str(build_c("fault_next.c", "-shared", "-fPIC", "-ldl"))
    order = [other, str(harness.LIBRARY)]
    preloads = other, ":".join(order if first else reversed(order))
    without, recorded = (
        simulate(
            [program, "another-signal", "sigaction", "cuda", "another-signal", "fault", "other-library"],
            env={**QUIET, "LD_PRELOAD": preload}, check=False,
        )
        for preload in preloads
    )
    assert "the other had 5 calls\n" in without.stdout, harness.described(without)
    assert (recorded.returncode, recorded.stdout) == (5, without.stdout), harness.described(recorded)


# Python


PRELUDE = """
import ctypes, faulthandler, mmap, os, signal, subprocess, sys, tempfile

cuda = ctypes.CDLL("libcuda.so.1")

def start():
    context = ctypes.c_void_p()
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    allocate()

def allocate():
    pointer = ctypes.c_uint64()
    for _ in range(100):
        assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(4096)) == 0
        assert cuda.cuMemFree_v2(pointer) == 0

def is_draining():
    for task in os.listdir("/proc/self/task"):
        try:
            if open(f"/proc/self/task/{task}/comm").read() == "gpumem-drain\\n":
                return True
        except OSError:  # it has ended meanwhile
            pass
    return False

def lose():
    rings = [line.split()[-1] for line in open("/proc/self/maps") if "gpumem-ring-" in line]
    if rings:
        while not is_draining():  # a thread has its name only once it runs
            os.sched_yield()
        os.truncate(rings[0], 4096)
        while is_draining():
            os.sched_yield()

def fault():
    file = tempfile.TemporaryFile()
    file.truncate(8192)
    mapped = mmap.mmap(file.fileno(), 8192)
    file.truncate(0)
    sys.stdout.flush()
    mapped[0]
"""

PYTHON = {
    "faulthandler before": ("faulthandler.enable(); start(); fault()", BUS, 0),
    "faulthandler after": ("start(); faulthandler.enable(); fault()", BUS, 0),
    "faulthandler, after the loss": ("faulthandler.enable(); start(); lose(); allocate(); fault()", BUS, 1),
    "faulthandler, sent": ("start(); faulthandler.enable(); os.kill(os.getpid(), signal.SIGBUS)", BUS, 0),
    "faulthandler enabled and disabled": (
        "faulthandler.enable(); start(); faulthandler.disable(); faulthandler.enable(); faulthandler.disable(); fault()",
        BUS, 0,
    ),
    "no handler": ("start(); fault()", BUS, 0),
    "the loss": ("start(); lose(); allocate(); print('here')", 0, 1),
    "kill from another process": (
        "start(); print(flush=True); subprocess.run(['kill', '-BUS', str(os.getpid())]); signal.pause()", BUS, 0,
    ),
    "a handler in Python": (
        "signal.signal(signal.SIGBUS, lambda *a: print('got', a[0])); start(); os.kill(os.getpid(), signal.SIGBUS)\n"
        "signal.signal(signal.SIGBUS, signal.SIG_IGN); os.kill(os.getpid(), signal.SIGBUS)\n"
        "print(signal.getsignal(signal.SIGBUS)); print(signal.signal(signal.SIGBUS, signal.SIG_DFL))",
        0, 0,
    ),
    "subprocess": (
        "start()\n"
        "for options in ({}, {'close_fds': False}, {'start_new_session': True}, {'preexec_fn': lambda: None}):\n"
        "    child = subprocess.run(['sh', '-c', 'grep SigIgn /proc/self/status; kill -BUS $$'], stdout=-1, **options)\n"
        "    print(child)\n"
        "fault()",
        BUS, 0,
    ),
    "wakeup and itimer": (
        "start(); signal.signal(signal.SIGALRM, lambda *a: print('alarm')); signal.setitimer(signal.ITIMER_REAL, 0.01)\n"
        "signal.pause(); lose(); allocate(); signal.setitimer(signal.ITIMER_REAL, 0.01); signal.pause()",
        0, 1,
    ),
}


@pytest.mark.parametrize("case", PYTHON)
def test_python(case, both, python_env):
    code, status, lines = PYTHON[case]
    done = both([python_env("py312"), "-c", PRELUDE + code], status, lines=lines)
    if case.startswith("faulthandler") and "disabled" not in case:
        assert "Fatal Python error: Bus error" in done.stderr


@pytest.mark.slow
def test_a_training_survives_the_loss_of_its_report(both, python_env):
    """Forward, backward and optimizer before it and after it, on PyTorch's own threads too; figures and status are the
    program's."""
    code = (
        f"sys.path.insert(0, {str(harness.WORKLOADS)!r})\n"
        "import torch, winds_up\n"
        "torch.manual_seed(1)\n"
        "model = torch.nn.Linear(64, 64).cuda()\n"
        "optimizer = torch.optim.Adam(model.parameters())\n"
        "for step in range(6):\n"
        "    optimizer.zero_grad()\n"
        "    model(torch.ones(8, 64, device='cuda')).sum().backward()\n"
        "    optimizer.step()\n"
        "    step == 2 and lose()\n"
        "    print(torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated())\n"
    )
    both([python_env("torch215"), "-c", PRELUDE + code], 0, lines=1)
