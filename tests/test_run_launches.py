"""`gpumem run`: what it starts and how, its signals and its errors. test_run.py has what it reports.

What breaks these tests: a launcher that swallows or doubles signals, or a library that is not found, or is found where
it is not."""

import os
import pty
import re
import signal
import socket
import subprocess
import sys

import harness
import pytest
from test_run import CHECKOUT, LAUNCHED, driver_peak, gpumem  # noqa: F401  (fixtures are taken by name)
from waiting import WATCHDOG

LAUNCHERS = {
    "torchrun": ["torchrun", "--nproc-per-node", "2", "--master-port", "0", "--standalone"],
    "accelerate": [
        "accelerate", "launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1", "--mixed_precision", "no",
        "--dynamo_backend", "no", "--main_process_port", "0",
    ],
    "deepspeed": ["deepspeed", "--num_gpus", "2", "--master_port", "PORT"],
}  # fmt: skip


@pytest.mark.parametrize("launcher", ["torchrun", *(pytest.param(name, marks=pytest.mark.slow) for name in ("accelerate", "deepspeed"))])
def test_launchers(launcher, gpumem, python_env, tmp_path):  # noqa: F811
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
        summary = harness.analyze_json("report", "--all", tmp_path / f"report.rank{rank}.bin")
        assert harness.device_of(summary, rank)["driver"]["peak_bytes"] == (rank + 1) << 20
        line = next(line for line in done.stderr.splitlines() if line.endswith(f"report.rank{rank}.bin"))
        assert f"{rank + 1}.00 MiB" in line


def free_port():
    """A port without a listener."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.mark.parametrize("report", (True, False))
def test_signals_are_passed_on_once(gpumem, tmp_path, report):  # noqa: F811
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


def test_a_terminals_interrupt_comes_once(gpumem, tmp_path):  # noqa: F811
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
    (["walk"], 125, "gpumem: no file or command is named walk: gpumem --help lists the commands"),
    (["rnu", "x.py"], 125, "gpumem: no file or command is named rnu: did you mean gpumem run?"),
    (["linse", "x.bin"], 125, "gpumem: no file or command is named linse: did you mean gpumem lines?"),
    (["absent.bin"], 125, "gpumem: no file or command is named absent.bin: gpumem --help lists the commands"),
)  # fmt: skip


@pytest.mark.parametrize(("words", "status", "line"), WRONG, ids=[" ".join(row[0]) for row in WRONG])
def test_what_cannot_be_run(gpumem, tmp_path, words, status, line):  # noqa: F811
    (tmp_path / "plain").write_text("print(1)\n")
    (tmp_path / "odd").write_bytes(b"\x00\x01\x02")
    (tmp_path / "odd").chmod(0o755)
    done = harness.run([gpumem.python, "-m", "gpumem", *words], env=CHECKOUT, cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout) == (status, ""), harness.described(done)
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("gpumem: "), done.stderr
    assert line is None or done.stderr == line + "\n"


def test_where_the_library_is(gpumem, tmp_path):  # noqa: F811
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


def test_a_library_below_a_folder_with_a_space(gpumem, tmp_path):  # noqa: F811
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


def test_every_command_of_the_analyzer_is_one_of_gpumem(gpumem, tmp_path):  # noqa: F811
    gpumem("run", "-q", LAUNCHED, "exit", "0")
    for words in (("analyze", "report", "--all"), ("report", "--all"), ("summary",)):
        done = gpumem(*words, "--format", "json", "report.bin")
        assert harness.device_of(harness.unwrapped(done.stdout))["driver"]["peak_bytes"] == 3 << 20
    reports = [gpumem(*words, "report.bin").stdout for words in ((), ("report",), ("analyze",), ("analyze", "report"))]
    assert "GPU 0" in reports[0] and reports == reports[:1] * 4
    assert gpumem("check", "absent.bin").returncode == 1
    assert gpumem("analyze", "--nonsense").returncode == 2
    listed = re.findall(r"^  ([a-z]+) ", harness.analyze("--help").stdout.partition("Commands:")[2].partition("Arguments:")[0], re.M)
    assert {"report", "lines", "mcp"} <= set(listed)
    for command in set(listed) - {"help"}:
        done = gpumem(command, "--help")
        assert done.returncode == 0 and "no file or command" not in done.stderr, command


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
    from gpumem._text import sizes

    for text, size in (
        ("2 GiB", 2 << 30), ("1.5GiB", 3 << 29), ("64KiB", 1 << 16), ("100", 100), (7, 7), ("2 GB", 2 * 10**9),
        ("0.1 KiB", 102), (" 8 B ", 8), ("16777216.1 TiB", (1 << 64) + (1 << 40) // 10),
    ):  # fmt: skip
        assert sizes.parse(text) == size
    for text in ("", "GiB", "-1", "1.5", "2 gib", "1e9", "1 GiB 2", None, 1.5, True, -1):
        with pytest.raises(ValueError, match="is not a size"):
            sizes.parse(text)
    for size, text in (
        (0, "0 B"), (1023, "1023 B"), (1024, "1.00 KiB"), (10235, "10.0 KiB"), (1 << 20, "1.00 MiB"),
        ((1 << 20) - 1, "1.00 MiB"), (362 << 20, "362 MiB"), (-3 << 20, "-3.00 MiB"), (1 << 54, "16384 TiB"),
    ):  # fmt: skip
        assert sizes.text(size) == text


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
