"""The zoo, third part: programs and surroundings that recorders of this kind have disturbed. Each ends as it does without
the recorder, with the same output, and leaves the capture that it should.

What breaks these tests: a function of the C library called by its name while the library is loaded or at the very end, a
cancellation point in a hook, a thread with a stack of a fixed size, a thread of ours that counts as the program's or
takes its signals, a line to whatever descriptor 2 is by now, an allocation that cannot fail, a stack that is read beyond
its memory, and a look-up by the loader on the program's thread."""

import os
import signal
import struct
import subprocess

import harness
import pytest
import zoo
from test_interposer import read  # noqa: F401
from waiting import until


@pytest.fixture(params=range(zoo.ROUNDS), autouse=True)
def _round(request):
    """Each round is a separate test."""


@pytest.fixture
def host(build_c):
    return build_c("zoo/host.c", "-ldl", "-pthread", "-rdynamic")


@pytest.mark.parametrize("first", (True, False), ids=("before us", "after us"))
@pytest.mark.parametrize("shim", ("ITERATES", "CLOCKS", "CALLS"))
def test_beside_a_library_that_looks_its_functions_up(shim, first, host, build_c, tmp_path):
    shim = build_c("zoo/shims.c", "-shared", "-fPIC", f"-D{shim}", "-ldl")
    libraries = (shim, harness.LIBRARY) if first else (harness.LIBRARY, shim)
    done = zoo.live_together(tmp_path / "with", [host, "plain"], 21, recorder_env=zoo.preloading(*libraries))
    zoo.assert_exact(tmp_path / "with" / "report.bin", done.stdout)


@pytest.mark.parametrize("first", (True, False), ids=("before us", "after us"))
def test_beside_a_tool_that_answers_look_ups(first, host, build_c, tmp_path):
    """Its limit holds in both orders, and what the card gave is recorded."""
    tool = build_c("zoo/shims.c", "-shared", "-fPIC", "-DLIMITS", "-ldl")
    libraries = (tool, harness.LIBRARY) if first else (harness.LIBRARY, tool)
    done = zoo.live_together(
        tmp_path / "with", [host, "limited"], 21, env=zoo.preloading(tool), recorder_env=zoo.preloading(*libraries)
    )
    assert "2 MiB: 2\n" in done.stdout
    zoo.assert_exact(tmp_path / "with" / "report.bin", done.stdout)


def test_under_the_thread_sanitizer(tmp_path):
    """Its runtime calls functions of the loader before anything else is ready."""
    program = tmp_path / "program.c"
    program.write_text("#include <stdio.h>\nint main(void) { puts(\"hello\"); return 7; }\n")
    built = subprocess.run(["cc", "-fsanitize=thread", program, "-o", tmp_path / "program"], capture_output=True, text=True)
    if built.returncode:
        pytest.skip(f"no sanitizer: {built.stderr.splitlines()[-1]}")
    done = harness.simulate([tmp_path / "program"], cwd=tmp_path, preload=True, check=False)
    assert (done.returncode, done.stdout) == (7, "hello\n"), harness.described(done)


@pytest.mark.parametrize("failures", (0, 5))
def test_a_thread_that_is_cancelled(failures, host, tmp_path):
    """The cancellation waits for the program's own cancellation point, also where the recorder prints and waits."""
    env = {"GPUMEM_QUIET": "0"} if failures else {}
    done = zoo.live_together(
        tmp_path / "with", [host, "cancelled", failures], 21, recorder_env=env, says=[".*"] * (3 if failures else 0),
        drop=("  ",),
    )
    assert "not yet\ncancelled\n" in done.stdout
    zoo.assert_whole(tmp_path / "with" / "report.bin")


def test_more_thread_local_data_than_a_stack(build_c, tmp_path):
    client = build_c("zoo/host.c", "-ldl", "-pthread", "-rdynamic", f"-DTHREAD_LOCAL={5 << 20}")
    done = zoo.live_together(tmp_path / "with", [client, "plain"], 21)
    zoo.assert_exact(tmp_path / "with" / "report.bin", done.stdout)


def test_the_first_thread_ends_before_the_others(host, tmp_path):
    """The process ends with its last own thread, with its exit handlers: the capture is whole."""
    done = zoo.live_together(tmp_path / "with", [host, "main ends"], 0)
    zoo.assert_exact(tmp_path / "with" / "report.bin", done.stdout)


SENT = (signal.SIGILL, signal.SIGTRAP, signal.SIGFPE, signal.SIGSEGV, signal.SIGBUS, signal.SIGTERM)


@pytest.mark.parametrize("sent", SENT, ids=lambda sent: sent.name)
def test_a_signal_that_the_program_waits_for(sent, host, tmp_path):
    done = zoo.live_together(tmp_path / "with", [host, "signal", int(sent)], 21)
    zoo.assert_exact(tmp_path / "with" / "report.bin", done.stdout)


def redirected(words, tmp_path, name):
    """The command line that runs a program whose stderr is a file, or closed."""
    return ["bash", "-c", f'exec "$@" {words}', "bash", *name]


def test_data_in_the_place_of_stderr(host, tmp_path):
    """Descriptor 2 is the program's data file by the time that there is something to say; or was closed from the start."""
    for words in ("", "2>&-"):
        folder = tmp_path / f"with{len(words)}"
        command = redirected(words, tmp_path, [host, "data on stderr"])
        done = zoo.live_together(folder, command, 21, recorder_env={"GPUMEM_QUIET": "0"})
        assert (folder / "data").read_bytes() == b""
        zoo.assert_whole(folder / "report.bin")
        assert done.stderr == ""


def test_files_may_not_grow(host, tmp_path):
    """stderr is a file, too: only the line is lost."""
    command = redirected("2>told", tmp_path, [host, "small files"])
    zoo.live_together(tmp_path / "with", command, 21, recorder_env={"GPUMEM_QUIET": "0"})
    assert (tmp_path / "with" / "told").read_bytes() == b""


def test_in_the_background_of_a_terminal_that_stops_writers(host, tmp_path):
    """`stty tostop`: a job that writes to the terminal of another one is stopped, but not for the recorder's line."""
    master, terminal = os.openpty()
    script = (
        f"import os, signal, subprocess, sys, termios, fcntl\n"
        f"fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
        f"mode = termios.tcgetattr(0); mode[3] |= termios.TOSTOP; termios.tcsetattr(0, termios.TCSANOW, mode)\n"
        f"child = subprocess.Popen(sys.argv[1:], process_group=0, stdin=subprocess.DEVNULL, stdout=open('out', 'w'))\n"
        f"pid, status = os.waitpid(child.pid, os.WUNTRACED)\n"
        f"stopped = os.WIFSTOPPED(status)\n"
        f"stopped and os.killpg(child.pid, signal.SIGKILL)\n"
        f"os._exit(77 if stopped else os.waitstatus_to_exitcode(status))\n"
    )
    command = harness.simulator_command([host, "plain"])
    process = subprocess.Popen(
        ["python3", "-c", script, *map(str, command)], cwd=tmp_path, stdin=terminal, stdout=terminal, stderr=terminal,
        start_new_session=True, env=harness.clean_environment(harness.preloaded({"GPUMEM_QUIET": "0"})),
    )
    os.close(terminal)
    until(lambda: process.poll() is not None, "the end of the job")
    os.close(master)
    assert process.returncode == 21
    zoo.assert_exact(tmp_path / "report.bin", (tmp_path / "out").read_text())


def test_fibers_whose_oldest_frame_leads_nowhere(host, tmp_path):
    done = zoo.live_together(tmp_path / "with", [host, "fiber"], 21)
    zoo.assert_exact(tmp_path / "with" / "report.bin", done.stdout)


def test_the_texts_of_errors_are_no_failures(host, tmp_path):
    """Of 20 texts and one failure that the program recovers from, the failure is one."""
    done = zoo.live_together(tmp_path / "with", [host, "texts"], 21)
    zoo.assert_exact(tmp_path / "with" / "report.bin", done.stdout)
    failures = harness.analyze_json("oom", tmp_path / "with" / "report.bin")["failures"]
    assert len(failures) == 1, failures


@pytest.mark.parametrize("initialised", (0, 1))
def test_a_driver_that_comes_back_elsewhere(initialised, host, tmp_path):
    done = zoo.live_together(tmp_path / "with", [host, "moved", initialised], 21)
    assert done.stdout.startswith("unloaded: 1, elsewhere: 1\n"), done.stdout
    zoo.assert_exact(tmp_path / "with" / "report.bin", done.stdout)


def test_errno_and_dlerror_stay(host, tmp_path):
    done = zoo.live_together(tmp_path / "with", [host, "errors"], 21)
    assert done.stdout.count("errno 77, /no/such/library: cannot open") == 2, done.stdout


def test_a_forked_childs_thread_is_its_own(host, read, tmp_path):  # noqa: F811
    zoo.live_together(tmp_path / "with", [host, "child"], 5)
    capture = read(tmp_path / "with" / "report.bin", whole=False)
    [process] = struct.unpack_from("<I", (tmp_path / "with" / "report.bin").read_bytes(), 48)
    assert {event["thread"] for event in capture.events} == {process}


PLACES = {"folder/": "folder/report.bin", "deep/er/x.bin": "deep/er/x.bin", ".": "report.bin"}


@pytest.mark.parametrize("wanted", PLACES)
def test_a_capture_in_a_folder(wanted, host, tmp_path):
    done = zoo.live_together(tmp_path / "with", [host, "plain"], 21, recorder_env={"GPUMEM_OUTPUT": wanted})
    zoo.assert_exact(tmp_path / "with" / PLACES[wanted], done.stdout)


def test_a_device_is_no_place_for_a_capture(host, tmp_path):
    says = ["^gpumem: cannot write a capture: /dev/null: not a regular file. Recording is off"]
    zoo.live_together(tmp_path / "with", [host, "plain"], 21, recorder_env={"GPUMEM_OUTPUT": "/dev/null"}, says=says)


def test_the_address_space_is_used_up(build_c, tmp_path):
    """The driver of this test allocates nothing, so that the recorder alone meets the limit."""
    client = build_c("zoo/used_up.c", "-ldl", "-pthread")
    driver = build_c("zoo/stub_driver.c", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1")
    (tmp_path / "libcuda.so.1").symlink_to(driver)
    for number, (when, spare) in enumerate((w, s) for w in ("before", "amid") for s in (0, 64, 1024, 8192, 65536)):
        folder = tmp_path / str(number)
        folder.mkdir()
        env = harness.clean_environment({"LD_LIBRARY_PATH": str(tmp_path), "LD_PRELOAD": str(harness.LIBRARY)})
        done = subprocess.run([client, when, str(spare)], cwd=folder, env=env, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (17, "over\n"), (when, spare, done)
        assert all(line.startswith("gpumem: ") for line in done.stderr.splitlines()), done.stderr
        if (folder / "report.bin").exists():
            assert zoo.checked(folder / "report.bin")["damage"] == [], (when, spare)


def test_a_capture_that_is_cut_while_it_is_recorded(host, tmp_path):
    """It stays readable, and says that something is missing."""
    line = r"report\.bin: another program truncated it .* [0-9]+ bytes of events are lost"
    env = {"GPUMEM_RING_SLOTS": "1024"}
    zoo.live_together(tmp_path / "with", [host, "cuts"], 21, recorder_env=env, says=[line])
    state = zoo.checked(tmp_path / "with" / "report.bin")
    assert (state["exit"], state["whole"]) == (3, False) and state["damage"], state
    assert "clean" in state["ending"], state


def test_secrets_of_the_command_line(host, tmp_path):
    """Their values are not recorded, and only the owner may open the capture."""
    words = ["--password", "planted-1", "--hf-token=planted-2", "HF_TOKEN=planted-3", "--tokenizer", "gpt2"]
    old = os.umask(0)
    try:
        zoo.live_together(tmp_path / "with", [host, "plain", *words], 21)
    finally:
        os.umask(old)
    report = tmp_path / "with" / "report.bin"
    assert report.stat().st_mode & 0o777 == 0o600
    command = harness.analyze_json("report", "--all", report)["process"]["command"]
    assert command.endswith("plain --password *** --hf-token=*** HF_TOKEN=*** --tokenizer gpt2"), command


def test_no_more_files_may_be_opened(host, tmp_path):
    """The line names the limit, and no empty file is left."""
    line = r"cannot write a capture: .*Too many open files.*Raise the limit on open files \(ulimit -n\)"
    zoo.live_together(tmp_path / "with", [host, "few files"], 21, says=[line])
    assert list((tmp_path / "with").glob("report*")) == []
