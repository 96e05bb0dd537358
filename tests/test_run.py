"""`gpumem run`: starts any program with the library without affecting it, and reports what was recorded.

What breaks these tests: a launcher that swallows or doubles signals, changes the exit status, loses an existing
LD_PRELOAD, guesses which files a run wrote, or prints on the program's stdout."""

import json
import os
import pty
import signal
import socket
import subprocess
import sys

import harness
import pytest
from waiting import WATCHDOG

LAUNCHED = harness.WORKLOADS / "launched.py"
CHECKOUT = {"PYTHONPATH": str(harness.ROOT / "python")}


@pytest.fixture
def gpumem(python_env, tmp_path):
    """gpumem("run", …) is `python -m gpumem run …` on the simulator, in the test's own folder."""
    python = python_env("py312")

    def start(*words, env=None, check=False, devices=1):
        return harness.simulate(
            [start.python, "-m", "gpumem", *words], env={**CHECKOUT, **(env or {})}, cwd=tmp_path, check=check,
            devices=devices,
        )

    start.python = python
    return start


def driver_peak(report):
    return harness.device_of(harness.analyze_json("summary", report))["driver"]["peak_bytes"]


def test_the_report_follows_the_program(gpumem, tmp_path):
    """The program's stdout is its own; the report is gpumem-analyze's, on stderr."""
    done = gpumem("run", LAUNCHED, "exit", "7")
    assert (done.returncode, done.stdout) == (7, ""), harness.described(done)
    report = tmp_path / "report.bin"
    assert driver_peak(report) == 3 << 20
    wanted = harness.run([harness.ANALYZER, "report.bin"], cwd=tmp_path).stdout
    assert done.stderr == wanted and "GPU 0 at its peak" in wanted
    assert (tmp_path / "report.svg").is_file()


@pytest.mark.parametrize(
    ("end", "status"),
    ((("exit", "0"), 0), (("exit", "255"), 255), (("kill", "SIGTERM"), 143), (("kill", "SIGKILL"), 137), (("kill", "SIGINT"), 130)),
)  # fmt: skip
def test_the_status_is_the_programs(gpumem, tmp_path, end, status):
    done = gpumem("run", LAUNCHED, *end)
    assert done.returncode == status, harness.described(done)
    assert driver_peak(tmp_path / "report.bin") == 3 << 20
    assert "GPU 0 at its peak" in done.stderr


@pytest.mark.parametrize("ring", ("memfd", "removed"))
def test_a_kill_loses_nothing_wherever_the_ring_is(gpumem, tmp_path, ring):
    """The launcher holds it open: memory without a name, and a file that is removed."""
    env = {"GPUMEM_RING": "memfd"} if ring == "memfd" else {}
    done = gpumem("run", LAUNCHED, ring, "1000", env=env)
    assert done.returncode == 137, harness.described(done)
    report = tmp_path / "report.bin"
    assert harness.analyze_json("check", report)["whole"], "also without the launcher"
    assert driver_peak(report) == 1003 << 20
    assert "GPU 0 at its peak" in done.stderr and "ENDS EARLY" not in done.stderr
    # The same without the launcher: events that were not yet written are lost, and the account reports it.
    alone = harness.simulate([gpumem.python, LAUNCHED, ring, "1000"], preload=True, env=env, cwd=tmp_path, check=False)
    assert alone.returncode == -signal.SIGKILL
    done = harness.analyze("check", tmp_path / "report-2.bin", check=False)
    assert done.returncode == 3 and "ENDS EARLY" in done.stdout, harness.described(done)


def test_a_socket_whose_path_is_too_long(gpumem, tmp_path):
    folder = tmp_path / ("x" * 100)
    folder.mkdir()
    done = gpumem("run", LAUNCHED, "kill", "SIGKILL", env={"TMPDIR": str(folder)})
    assert done.returncode == 137 and "GPU 0 at its peak" in done.stderr, harness.described(done)
    assert [left.name for left in folder.iterdir() if not left.name.startswith("gpumem-cards.")] == []


def test_a_ring_is_taken_over_once(gpumem, tmp_path):
    """The first reader of the capture takes the ring over; the launcher's copy then has no effect."""
    code = (
        "import subprocess, sys, shutil\n"
        "assert subprocess.run(sys.argv[3:]).returncode == -9\n"
        "subprocess.run([sys.argv[1], *'symbolize report.bin -o report.bin'.split()], check=True)\n"
        "shutil.copyfile('report.bin', sys.argv[2])\n"
    )
    copy, report, ring = tmp_path / "copy", tmp_path / "report.bin", tmp_path / "ring"
    done = gpumem("run", "-c", code, harness.ANALYZER, copy, gpumem.python, LAUNCHED, "kill", "SIGKILL")
    assert done.returncode == 0 and "GPU 0 at its peak" in done.stderr, harness.described(done)
    assert report.read_bytes() == copy.read_bytes()
    ring.write_bytes(b"no ring")
    ring.chmod(0o600)
    for words, status, said in (
        ((report,), 0, "no events to recover"),
        (("--ring", ring, report), 1, "it is cut off"),
        (("--ring", tmp_path / "none", report), 1, "No such file"),
        ((tmp_path / "none",), 1, "No such file"),
    ):
        done = harness.analyze("recover", *words, check=False)
        assert done.returncode == status and said in done.stdout + done.stderr, harness.described(done)
    assert report.read_bytes() == copy.read_bytes()


def test_without_a_report_the_program_takes_its_place(gpumem, tmp_path):
    """Nothing stands between: a signal that ends the program ends what was started."""
    done = gpumem("run", "--no-report", LAUNCHED, "kill", "SIGTERM")
    assert done.returncode == -signal.SIGTERM and done.stderr == "", harness.described(done)
    assert driver_peak(tmp_path / "report.bin") == 3 << 20
    done = gpumem("run", "--no-report", LAUNCHED, "exit", "4")
    assert done.returncode == 4
    assert done.stderr == "gpumem: wrote report-2.bin. Read it with: gpumem-analyze report-2.bin\n"
    done = gpumem("run", "-q", LAUNCHED, "exit", "4")
    assert (done.returncode, done.stdout, done.stderr) == (4, "", "")
    assert driver_peak(tmp_path / "report-3.bin") == 3 << 20


def test_forms_of_a_program(gpumem, tmp_path):
    """A script, a module, code, a command on PATH, one beside the interpreter, a folder: all with their own
    arguments, and this Python for what is Python."""
    (tmp_path / "package").mkdir()
    tell = "import sys, os; print(sys.executable, sys.argv[1:], os.path.basename(sys.argv[0]))\n"
    for name in ("package/__init__.py", "package/__main__.py", "script.py"):
        (tmp_path / name).write_text("" if name.endswith("init__.py") else tell)
    python, words = str(gpumem.python), ["--output", "x", "-m", "--help"]
    for form, name in (
        (["script.py"], "script.py"), (["-m", "package"], "__main__.py"), (["package"], "package"),
        (["-c", tell], "-c"), (["--", "script.py"], "script.py"), ([python, "script.py"], "script.py"),
    ):  # fmt: skip
        done = gpumem("run", "-q", *form, *words)
        assert done.stdout == f"{python} {words} {name}\n", harness.described(done)
    done = gpumem("run", "-q", "sh", "-c", 'echo "$0 $1" $LD_PRELOAD', "a b", "c")
    assert done.stdout.startswith(f"a b c {harness.LIBRARY}:"), "the simulator's libraries stay, after ours"


def test_a_preload_is_kept_and_not_doubled(gpumem):
    show = ("run", "-q", "-c", "import os; print(os.environ['LD_PRELOAD'])")
    plain = gpumem(*show).stdout.strip().split(":")
    assert plain[0] == str(harness.LIBRARY) and len(plain) > 1
    twice = gpumem("run", "-q", "-m", "gpumem", *show).stdout.strip().split(":")
    assert twice == plain


def test_options_become_the_librarys(gpumem):
    done = gpumem(
        "run", "--output", "a %p.bin", "--limit", "1.5GiB,1=2 GB", "--bounded", "64MiB", "--stacks", "python",
        "--stack-sample", "512KiB", "--free-stacks", "--no-report", "-c",
        "import os; print({k: v for k, v in sorted(os.environ.items()) if k.startswith('GPUMEM_') and 'SIM' not in k and k != 'GPUMEM_BUILT'})",
        env={"GPUMEM_SAMPLE_MS": "50"},
    )  # fmt: skip
    assert done.stdout == str({
        "GPUMEM_BOUNDED": str(64 << 20), "GPUMEM_FREE_STACKS": "on", "GPUMEM_LIMIT": f"{3 << 29},1={2 * 10**9}",
        "GPUMEM_OUTPUT": "a %p.bin", "GPUMEM_SAMPLE_MS": "50", "GPUMEM_STACKS": "python",
        "GPUMEM_STACK_SAMPLE": str(512 << 10),
    }) + "\n", harness.described(done)  # fmt: skip


def test_where_the_capture_goes(gpumem, tmp_path):
    """The report is made from the file that this run wrote, not from an existing one; also in another folder."""
    (tmp_path / "report.bin").write_bytes(b"of yesterday")
    (tmp_path / "elsewhere").mkdir()
    done = gpumem("run", "-c", f"import os, runpy, sys; os.chdir('elsewhere'); sys.argv[1:] = ['exit', '0']; "
                  f"runpy.run_path({str(LAUNCHED)!r}, run_name='__main__')")
    assert "Flamegraph of the peak: elsewhere/report.svg." in done.stderr, harness.described(done)
    assert driver_peak(tmp_path / "elsewhere" / "report.bin") == 3 << 20
    done = gpumem("run", LAUNCHED, "exit", "0")
    assert "\nreport-2.bin   " in done.stderr, harness.described(done)
    assert (tmp_path / "report.bin").read_bytes() == b"of yesterday"
    done = gpumem("run", "-o", str(tmp_path / "own-%p.bin"), LAUNCHED, "exit", "0")
    own = next(tmp_path.glob("own-*.bin"))
    assert f"\n{own.name}   " in done.stderr, harness.described(done)
    # The environment can turn off the post-mortem, or turn on the line.
    done = gpumem("run", LAUNCHED, "exit", "0", env={"GPUMEM_QUIET": "0"})
    assert done.stderr.startswith("gpumem: wrote report-3.bin."), harness.described(done)


def test_nothing_recorded(gpumem, tmp_path):
    done = gpumem("run", LAUNCHED, "--mib", "0", "exit", "3")
    assert done.returncode == 3
    assert done.stderr.startswith("gpumem: nothing was recorded: no process with the library made a CUDA call (")
    done = gpumem("run", "-c", f"import os, sys; sys.path.insert(0, {str(LAUNCHED.parent)!r}); import launched; "
                  "launched.take(1); os.unlink('report.bin')")
    assert done.stderr == "gpumem: report.bin was deleted while the program ran, so there is no capture\n"


def test_nothing_recorded_without_a_driver(gpumem, tmp_path):
    done = harness.run([gpumem.python, "-m", "gpumem", "run", "-c", "pass"], env=CHECKOUT, cwd=tmp_path)
    assert done.stderr == (
        "gpumem: nothing was recorded: there is no CUDA driver on this machine (libcuda.so.1 was not found)\n"
    )


def test_a_limit_that_leaves_no_room_for_a_context(gpumem, tmp_path):
    """The failure is recorded, with what a context takes: what the simulator's books say of one."""
    done = gpumem("run", "--limit", "300MiB", LAUNCHED, "exit", "0")
    assert done.returncode == 1 and "cuDevicePrimaryCtxRetain gave 2" in done.stderr, harness.described(done)
    said = [line for line in done.stderr.splitlines() if "a context, which takes 512 MiB" in line]
    assert "(536,870,912 bytes), requested through cuDevicePrimaryCtxRetain" in said[0], done.stderr
    assert f"OUT OF MEMORY a context, which takes 512 MiB, requested at {LAUNCHED}:" in " ".join(done.stderr.split()), done.stderr
    assert "the limit of GPUMEM_LIMIT=300MiB has no room for a context: 0 B of 300 MiB in use" in done.stderr
    failures = harness.analyze_json("oom", tmp_path / "report.bin")["failures"]
    assert {failure["requested_bytes"] for failure in failures} == {512 << 20} and failures[0]["by_limit"]
    # With enough room no such message is printed, and the context that was created for the measurement is destroyed.
    done = gpumem("run", "--limit", "600MiB", LAUNCHED, "exit", "0")
    assert done.returncode == 0 and "OUT OF MEMORY" not in done.stderr, harness.described(done)


def test_several_processes_have_a_line_each(gpumem, tmp_path):
    """By rank, whatever the order in which they began; a GPU that is not 0 has its number."""
    (tmp_path / "ranks.py").write_text(
        "import os, subprocess, sys\n"
        "for rank in (10, 2, 1):\n"
        f"    subprocess.run([sys.executable, {str(LAUNCHED)!r}, '--mib', str(rank), 'exit', '0'],\n"
        "                   env={**os.environ, 'RANK': str(rank), 'WORLD_SIZE': '11'}, check=True)\n"
    )
    done = gpumem("run", "ranks.py", check=True)
    lines = done.stderr.splitlines()
    assert lines[0] == "gpumem: 3 processes recorded a capture each", harness.described(done)
    rows = [line.split() for line in lines[2:5]]
    assert [(row[0], row[2], row[5], row[6], row[-2], row[-1]) for row in rows] == [
        (str(rank), "0", f"{rank}.{'0' if rank > 9 else '00'}", "MiB", "exact", f"report.rank{rank}.bin")
        for rank in (1, 2, 10)
    ]
    for rank in (1, 2, 10):
        assert driver_peak(tmp_path / f"report.rank{rank}.bin") == rank << 20
    assert "diff report.rank1.bin report.rank2.bin" in lines[-1]
    assert lines[-2].endswith("report.rank1.bin")


@pytest.fixture
def two_ranks(tmp_path):
    """A program that starts two more, of rank 0 and 1, and ends with status 7."""
    (tmp_path / "ranks.py").write_text(
        "import os, subprocess, sys\n"
        "for rank in (0, 1):\n"
        f"    subprocess.run([sys.executable, {str(LAUNCHED)!r}, '--mib', '1', 'exit', '0'],\n"
        "                   env={**os.environ, 'RANK': str(rank), 'WORLD_SIZE': '2'}, check=True)\n"
        "sys.exit(7)\n"
    )
    return "ranks.py"


def test_a_gpu_of_which_nothing_is_known_on_the_card(gpumem, two_ranks, tmp_path):
    """As of a rank that has pinned memory of a GPU and no context on it: its summary has no peak there."""
    analyzer = tmp_path / "analyzer"
    analyzer.write_text(
        f"#!{sys.executable}\nimport json, os, subprocess, sys\n"
        "if sys.argv[1] != 'summary':\n"
        f"    os.execv({str(harness.ANALYZER)!r}, sys.argv)\n"
        f"said = subprocess.run([{str(harness.ANALYZER)!r}, *sys.argv[1:]], stdout=subprocess.PIPE, check=True).stdout\n"
        "summary = json.loads(said)\n"
        "for device in summary['data']['devices']:\n"
        "    device['physical'] = {'live_bytes': None, 'peak_bytes': None}\n"
        "print(json.dumps(summary))\n"
    )
    analyzer.chmod(0o755)
    done = gpumem("run", two_ranks, env={"GPUMEM_ANALYZE": str(analyzer)})
    assert done.returncode == 7, harness.described(done)
    rows = [line.split() for line in done.stderr.splitlines()[2:4]]
    assert [row[-3:] for row in rows] == [["unknown", "exact", f"report.rank{rank}.bin"] for rank in (0, 1)], done.stderr


@pytest.mark.parametrize("analyzer", ("#!/bin/sh\necho '{}'\n", "#!/bin/sh\necho no JSON\n", "#!/nonexistent\n", None))
def test_a_report_that_fails_leaves_the_status(analyzer, gpumem, two_ranks, tmp_path):
    """One line reports it and names the captures."""
    path = tmp_path / "analyzer"
    if analyzer:
        path.write_text(analyzer)
        path.chmod(0o755)
    done = gpumem("run", two_ranks, env={"GPUMEM_ANALYZE": str(path)})
    assert done.returncode == 7, harness.described(done)
    said = [line for line in done.stderr.splitlines() if "failed" in line]
    assert len(said) == 1 and said[0].startswith("gpumem: the report failed because of an error in gpumem: "), done.stderr
    assert said[0].endswith("The captures: report.rank0.bin  report.rank1.bin") and "Traceback" not in done.stderr


LAUNCHERS = {
    "torchrun": ["torchrun", "--nproc-per-node", "2", "--master-port", "0", "--standalone"],
    "accelerate": [
        "accelerate", "launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1", "--mixed_precision", "no",
        "--dynamo_backend", "no", "--main_process_port", "0",
    ],
    "deepspeed": ["deepspeed", "--num_gpus", "2", "--master_port", "PORT"],
}  # fmt: skip


@pytest.mark.parametrize("launcher", ["torchrun", *(pytest.param(name, marks=pytest.mark.slow) for name in ("accelerate", "deepspeed"))])
def test_launchers(launcher, gpumem, python_env, tmp_path):
    """The real ones with two ranks, each on its own GPU: a capture each, with that GPU's memory."""
    (tmp_path / "train.py").write_text(
        f"import os, sys; sys.path.insert(0, {str(LAUNCHED.parent)!r}); import launched\n"
        "rank = int(os.environ['RANK'])\n"
        "launched.take(rank + 1, device=rank)\n"
    )
    gpumem.python = python_env("torch215")
    env = {}
    if launcher != "torchrun":
        gpumem.python = python_env("programs")
        env = {"PATH": f"{gpumem.python.parent}{os.pathsep}{os.environ['PATH']}"}
    command = [word.replace("PORT", str(free_port())) for word in LAUNCHERS[launcher]]
    done = gpumem("run", *command, "train.py", env=env, check=True, devices=2)
    for rank in (0, 1):
        summary = harness.analyze_json("summary", tmp_path / f"report.rank{rank}.bin")
        assert harness.device_of(summary, rank)["driver"]["peak_bytes"] == (rank + 1) << 20
        line = next(line for line in done.stderr.splitlines() if line.endswith(f"report.rank{rank}.bin"))
        assert f"{rank + 1}.00 MiB" in line


def free_port():
    """A port without a listener."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.mark.parametrize("report", (True, False))
def test_signals_are_passed_on_once(gpumem, tmp_path, report):
    options = [] if report else ["--no-report"]
    process = subprocess.Popen(
        harness.simulator_command([gpumem.python, "-m", "gpumem", "run", *options, LAUNCHED, "signals"]),
        env=harness.clean_environment(CHECKOUT), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "ready\n"
    for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGTERM"):
        process.send_signal(getattr(signal, name))
        assert process.stdout.readline() == f"{name}\n"
    process.send_signal(signal.SIGUSR2)
    out, errors = process.communicate(timeout=WATCHDOG)
    assert out == str({"SIGHUP": 1, "SIGINT": 1, "SIGTERM": 2, "SIGUSR1": 1}) + "\n"
    assert process.returncode == 0, errors
    assert ("GPU 0 at its peak" in errors) == report


def test_a_terminals_interrupt_comes_once(gpumem, tmp_path):
    """Ctrl-C at a terminal goes to the program and the launcher: passed on, it would come twice."""
    child, terminal = pty.fork()
    if child == 0:  # a session with that terminal
        os.chdir(tmp_path)
        command = harness.simulator_command([gpumem.python, "-m", "gpumem", "run", LAUNCHED, "signals"])
        os.execvpe(command[0], command, harness.clean_environment(CHECKOUT))
    told = b""
    while b"ready" not in told:
        told += os.read(terminal, 4096)
    os.write(terminal, b"\x03")
    while b"SIGINT\r" not in told:
        told += os.read(terminal, 4096)
    os.write(terminal, b"\x03")
    while told.count(b"SIGINT\r") < 2:
        told += os.read(terminal, 4096)
    # The launcher is the terminal's process itself: with-simulator becomes its command.
    os.kill(child, signal.SIGUSR2)
    while b"}" not in told:
        told += os.read(terminal, 4096)
    assert b"{'SIGINT': 2}" in told
    try:
        while os.read(terminal, 4096):
            pass
    except OSError:
        pass  # the terminal's last process has ended
    assert os.waitpid(child, 0)[1] == 0


WRONG = (
    (["run"], 125, "gpumem: run: which program? (gpumem run --help)"),
    (["run", "--limit", "24G", "x.py"], 125,
     "gpumem: run: argument --limit: '24G' is not a size: write bytes, or a number with KiB, MiB or GiB "
     "(gpumem run --help)"),
    (["run", "--limit", "5", "x.py"], 125,
     "gpumem: run: argument --limit: '5' is 5 bytes: write a unit, as in 5GiB (gpumem run --help)"),
    (["run", "--bounded", "0=64", "x.py"], 125,
     "gpumem: run: argument --bounded: '0=64' is not a size: write bytes, or a number with KiB, MiB or GiB "
     "(gpumem run --help)"),
    (["run", "--limit", "a=1GiB", "x.py"], 125, None),
    (["run", "--stack-sample", "2GiB", "x.py"], 125,
     "gpumem: run: argument --stack-sample: '2GiB' is not between 4KiB and 1GiB (gpumem run --help)"),
    (["run", "--nonsense", "x.py"], 125, "gpumem: run: unrecognized arguments: --nonsense (gpumem run --help)"),
    (["run", "--stacks", "all", "x.py"], 125, None),
    (["run", "--output"], 125, None),
    (["run", "absent.py"], 127, "gpumem: run: absent.py: no such file"),
    (["run", "no-such-program"], 127, "gpumem: run: no-such-program: no such program"),
    (["run", "plain"], 126,
     "gpumem: run: plain: cannot be executed (a Python script? gpumem run python plain)"),
    (["run", "./odd"], 126, "gpumem: run: ./odd: Exec format error"),
    (["run", "-q", "./odd"], 126, "gpumem: run: ./odd: Exec format error"),
    (["walk"], 125, "gpumem: no such command: walk (gpumem --help)"),
)  # fmt: skip


@pytest.mark.parametrize(("words", "status", "line"), WRONG, ids=[" ".join(row[0]) for row in WRONG])
def test_what_cannot_be_run(gpumem, tmp_path, words, status, line):
    (tmp_path / "plain").write_text("print(1)\n")
    (tmp_path / "odd").write_bytes(b"\x00\x01\x02")
    (tmp_path / "odd").chmod(0o755)
    done = harness.run([gpumem.python, "-m", "gpumem", *words], env=CHECKOUT, cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout) == (status, ""), harness.described(done)
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("gpumem: "), done.stderr
    assert line is None or done.stderr == line + "\n"


def test_where_the_library_is(gpumem, tmp_path):
    assert gpumem("library").stdout == f"{harness.LIBRARY}\n"
    # A copy of the package alone finds no library.
    alone = tmp_path / "alone"
    alone.mkdir()
    subprocess.run(["cp", "-r", harness.ROOT / "python" / "gpumem", alone], check=True)
    bare = {"PYTHONPATH": str(alone)}
    run = [gpumem.python, "-m", "gpumem", "run", LAUNCHED, "exit", "0"]
    done = harness.run(run, env={**bare, "GPUMEM_BUILT": None}, cwd=tmp_path, check=False)
    assert done.returncode == 125
    assert done.stderr.startswith("gpumem: run: libgpumem.so is neither in "), done.stderr
    done = harness.run(run, env={**bare, "GPUMEM_LIBRARY": str(tmp_path / "no.so")}, cwd=tmp_path, check=False)
    assert done.stderr == f"gpumem: run: GPUMEM_LIBRARY={tmp_path}/no.so: no such file\n"
    done = gpumem("run", LAUNCHED, "exit", "5", env={**bare, "GPUMEM_LIBRARY": str(harness.LIBRARY)})
    assert done.returncode == 5 and "GPU 0 at its peak" in done.stderr, harness.described(done)


def test_a_library_below_a_folder_with_a_space(gpumem, tmp_path):
    """LD_PRELOAD separates by spaces and colons: such a path is reached through a link."""
    odd = tmp_path / "my files: all"
    odd.mkdir()
    for file in (harness.LIBRARY, harness.ANALYZER):
        os.link(file, odd / file.name) if os.stat(file).st_dev == os.stat(odd).st_dev else subprocess.run(
            ["cp", file, odd], check=True
        )
    env = {"GPUMEM_LIBRARY": str(odd / "libgpumem.so"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = gpumem("run", LAUNCHED, "exit", "0", env=env)
    assert driver_peak(tmp_path / "report.bin") == 3 << 20, harness.described(done)
    assert "ERROR: ld.so" not in done.stderr
    # No place for a link without a space: an error is reported before any attempt.
    done = gpumem("run", LAUNCHED, "exit", "0", env={**env, "XDG_CACHE_HOME": str(odd)})
    assert done.returncode == 125 and "both have a space" in done.stderr, harness.described(done)


def test_analyze_passes_through(gpumem, tmp_path):
    gpumem("run", "-q", LAUNCHED, "exit", "0")
    done = gpumem("analyze", "summary", "--format", "json", "report.bin")
    assert harness.device_of(harness.unwrapped(done.stdout))["driver"]["peak_bytes"] == 3 << 20
    assert gpumem("analyze", "check", "absent.bin").returncode == 1
    assert gpumem("analyze", "--nonsense").returncode == 2


@pytest.mark.parametrize("version", ("py38", *(pytest.param(name, marks=pytest.mark.slow) for name in ("py39", "py310", "py311", "py313", "py314"))))
def test_each_python_can_launch(version, python_env, tmp_path):
    """As far as the program and its status; nothing here is on the simulator."""
    for options, said in ((["-q"], ""), ([], "gpumem: nothing was recorded")):
        done = harness.run(
            [python_env(version), "-m", "gpumem", "run", *options, "-c",
             "import gpumem, sys; print(gpumem.api_version() is not None); sys.exit(9)"],
            env=CHECKOUT, cwd=tmp_path, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (9, "True\n"), harness.described(done)
        assert done.stderr.startswith(said)
    assert sys.version_info >= (3, 8)


def test_sizes_are_read_and_written():
    """In whole bytes, and with three digits as gpumem-analyze has them."""
    sys.path.insert(0, CHECKOUT["PYTHONPATH"])
    from gpumem import _sizes

    for text, size in (
        ("2 GiB", 2 << 30), ("1.5GiB", 3 << 29), ("64KiB", 1 << 16), ("100", 100), (7, 7), ("2 GB", 2 * 10**9),
        ("0.1 KiB", 102), (" 8 B ", 8), ("16777216.1 TiB", (1 << 64) + (1 << 40) // 10),
    ):  # fmt: skip
        assert _sizes.parse(text) == size
    for text in ("", "GiB", "-1", "1.5", "2 gib", "1e9", "1 GiB 2", None, 1.5, True, -1):
        with pytest.raises(ValueError, match="is not a size"):
            _sizes.parse(text)
    for size, text in (
        (0, "0 B"), (1023, "1023 B"), (1024, "1.00 KiB"), (10235, "10.0 KiB"), (1 << 20, "1.00 MiB"),
        ((1 << 20) - 1, "1.00 MiB"), (362 << 20, "362 MiB"), (-3 << 20, "-3.00 MiB"), (1 << 54, "16384 TiB"),
    ):  # fmt: skip
        assert _sizes.text(size) == text


def test_on_a_simulated_card(python_env, tmp_path):
    """The processes of a run share a card, which looks like the one that was named."""
    program = tmp_path / "program.py"
    program.write_text(
        f"import ctypes, subprocess, sys\nsys.path.insert(0, {str(LAUNCHED.parent)!r})\nimport launched\n"
        "launched.take(1024)\n"
        "cuda, name, free, total = ctypes.CDLL('libcuda.so.1'), ctypes.create_string_buffer(99), ctypes.c_size_t(), ctypes.c_size_t()\n"
        "assert cuda.cuDeviceGetName(name, 99, 0) == cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0\n"
        "print(name.value.decode(), free.value >> 20, flush=True)\n"
        "if len(sys.argv) == 1: subprocess.run([sys.executable, __file__, 'child'], check=True)\n"
    )
    env = {**CHECKOUT, "GPUMEM_OUTPUT": str(tmp_path / "%p.bin")}

    def run(*words):
        return harness.run([python_env("py312"), "-m", "gpumem", "run", *words, program], env=env, check=False)

    done = run("-q", "--simulate", "--card", "t4")
    assert done.returncode == 0, done.stderr
    one, two = done.stdout.splitlines()
    assert one.startswith("Tesla T4 ") and two.startswith("Tesla T4 ")
    # The other's gigabyte and context are gone from it, too.
    assert 1024 < int(one.split()[-1]) - int(two.split()[-1]) < 1400
    assert len(list(tmp_path.glob("*.bin"))) == 2
    refused = run("--card", "t4")
    assert refused.returncode == 125 and "--card goes with --simulate" in refused.stderr
    unknown = run("--simulate", "--card", "h1000")
    assert unknown.returncode == 125 and "no card 'h1000'" in unknown.stderr and unknown.stderr.count("\n") == 1
