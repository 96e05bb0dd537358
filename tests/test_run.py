"""`gpumem run`: starts any program with the library without affecting it, and reports what was recorded.

What breaks these tests: a launcher that swallows or doubles signals, changes the exit status, loses an existing
LD_PRELOAD, guesses which files a run wrote, or prints on the program's stdout."""

import signal
import subprocess
import sys

import harness
import pytest
from lanes import slow

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
    return harness.device_of(harness.analyze_json("report", "--all", report))["driver"]["peak_bytes"]


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
        ((report,), 0, "report.bin: whole"),
        (("--ring", ring, report), 1, "it is cut off"),
        (("--ring", tmp_path / "none", report), 1, "No such file"),
        ((tmp_path / "none",), 1, "No such file"),
    ):
        done = harness.analyze("check", *words, check=False)
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


def compiled(folder, *options):
    program = folder / "program"
    subprocess.run(["cc", *options, harness.WORKLOADS / "zoo" / "needs_context.c", "-o", program, "-ldl"], check=True)
    return program


def test_a_program_of_address_sanitizer_starts(gpumem, tmp_path):
    """Its library must be the first one, as the program itself would have it."""
    program = compiled(tmp_path, "-fsanitize=address", "-g")
    done = gpumem("run", "--output", "asan.bin", program, env={"ASAN_OPTIONS": "detect_leaks=0"})
    assert done.returncode == 0, harness.described(done)
    assert driver_peak(tmp_path / "asan.bin") >= 1 << 20
    # If the user has named it, it is not named twice.
    show = "from gpumem._launch import launcher; print(launcher.environment({}, {'LD_PRELOAD': 'liba.so:/x/libasan.so.8'}, sys.argv[1])['LD_PRELOAD'])"
    named = harness.run([gpumem.python, "-c", "import sys; " + show, program], env={**CHECKOUT, "GPUMEM_BUILT": str(harness.BUILT)})
    assert named.stdout.strip() == f"/x/libasan.so.8:{harness.LIBRARY}:liba.so"


def test_a_program_of_musl_is_not_preloaded(gpumem, tmp_path):
    program = compiled(tmp_path, "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1")
    done = gpumem("run", "--no-report", program)
    assert "is a program of musl" in done.stderr and "runs without the recorder" in done.stderr, harness.described(done)


def test_options_become_the_librarys(gpumem):
    done = gpumem(
        "run", "--output", "a %p.bin", "--limit", "1.5GiB,1=2 GB", "--bounded", "64MiB", "--stacks", "python,frees",
        "--stack-sample", "512KiB", "--no-report", "-c",
        "import os; print({k: v for k, v in sorted(os.environ.items()) if k.startswith('GPUMEM_') and 'SIM' not in k and k != 'GPUMEM_BUILT'})",
        env={"GPUMEM_SAMPLE_MS": "50"},
    )  # fmt: skip
    assert done.stdout == str({
        "GPUMEM_BOUNDED": str(64 << 20), "GPUMEM_FREE_STACKS": "on", "GPUMEM_LIMIT": f"{3 << 29},1={2 * 10**9}",
        "GPUMEM_OUTPUT": "a %p.bin", "GPUMEM_PLAN_PARTS": "names", "GPUMEM_SAMPLE_MS": "50", "GPUMEM_STACKS": "python",
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
    assert "cause    the request alone is larger than the limit (GPUMEM_LIMIT): 512 MiB of 300 MiB" in done.stderr
    assert "card     0 B of 300 MiB in use" in done.stderr
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


def test_the_process_whose_allocation_failed_is_named(gpumem, tmp_path):
    (tmp_path / "ranks.py").write_text(
        "import os, subprocess, sys\n"
        "for rank, mib in enumerate((1, 1 << 20)):\n"
        f"    subprocess.run([sys.executable, {str(LAUNCHED)!r}, '--mib', str(mib), 'exit', '0'],\n"
        "                   env={**os.environ, 'RANK': str(rank), 'WORLD_SIZE': '2'})\n"
    )
    done = gpumem("run", "ranks.py", check=True)
    [line] = [line for line in done.stderr.splitlines() if line.startswith("Allocations failed in ")]
    assert line.startswith("Allocations failed in 1 of them: ") and line.endswith(" oom report.rank1.bin"), line


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
        "if '--all' not in sys.argv:\n"
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


def names_of(report):
    return {row["module"] for row in harness.analyze_json("lines", "--by", "module", report)} - {None}


@pytest.mark.parametrize("how", ([], ["fails"], *slow(["parallel"])))
def test_modules_are_named_without_an_import_in_the_program(gpumem, python_env, tmp_path, how):
    gpumem.python = python_env("torch215")
    script = harness.WORKLOADS / "late_model.py"
    done = [gpumem("run", "-q", "--output", f"{name}.bin", script, *how, env={"GPUMEM_MODULES": name}) for name in ("on", "off")]
    parts = {f"layer4.{block}.{part}" for block in range(3) for part in ("conv2", "out")}
    assert parts <= names_of(tmp_path / "on.bin"), harness.described(done[0])
    assert names_of(tmp_path / "off.bin") >= {"Linear#1", "Linear#6"}
    assert (done[0].stdout, done[0].returncode) == (done[1].stdout, done[1].returncode)
    assert [line.split()[0] for line in done[0].stderr.splitlines()] == [line.split()[0] for line in done[1].stderr.splitlines()]


def test_a_program_without_pytorch_loads_nothing(gpumem):
    tell = "import sys; print([name for name in sys.modules if 'gpumem' in name or 'customize' in name], [e for e in sys.path if '_plan' in e])"
    assert gpumem("run", "-q", "-c", tell).stdout == "[] []\n"
