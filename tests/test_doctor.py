"""`gpumem doctor`: its findings on a machine, and its advice.

The tests set up machines: a simulated GPU, a PATH with another project's command, folders that are full or
read-only. test_doctor_findings.py has what cannot be set up. What breaks these tests: a check that passes where
recording fails, or an exit status that does not follow from the lines."""

import ctypes
import os
import re
import stat
import sys

import harness
import pytest
import schemas

sys.path.insert(0, str(harness.ROOT / "python"))

from gpumem._commands.doctor import check, commands, preload, text, versions  # noqa: E402

CHECKOUT = {"PYTHONPATH": str(harness.ROOT / "python")}
# Other settings of the machine that runs the tests do not count.
CLEAN = {"GPUMEM_OUTPUT": None, "GPUMEM_RING": None, "KUBERNETES_SERVICE_HOST": None}


@pytest.fixture
def doctor(tmp_path):
    """doctor(words…) runs `gpumem doctor` in the test's own folder; the status, and each check by its name."""

    def run(*words, env=None, prefix=(), python=sys.executable, cwd=tmp_path):
        command = [*prefix, python, "-m", "gpumem", "doctor", "--format", "json", *words]
        done = harness.run(command, env={**CLEAN, **CHECKOUT, **(env or {})}, cwd=cwd, check=False)
        assert done.stdout, harness.described(done)
        said = schemas.found("doctor", done.stdout)
        rows = said["rows"]
        assert said["works"] == (done.returncode == 0) == ("error" not in {row["status"] for row in rows})
        assert all(row["advice"] for row in rows if row["status"] != "ok"), rows
        return done.returncode, {row["check"]: row for row in rows}

    return run


def is_there(library):
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


@pytest.mark.skipif(is_there("libcuda.so.1"), reason="this machine has a driver")
def test_without_a_driver(doctor):
    """Recording cannot work; the other checks run nevertheless."""
    status, rows = doctor()
    assert status == 1
    assert [name for name, row in rows.items() if row["status"] == "error"] == ["driver"]
    assert rows["driver"]["found"] == "libcuda.so.1 was not found"
    assert "gpumem run --simulate" in rows["driver"]["advice"]
    assert rows["self-test"]["status"] == rows["recorder"]["status"] == "ok"


def test_on_the_simulated_gpu(doctor):
    status, rows = doctor("--simulate", env={"GPUMEM_SIM_MEMORY": "24GiB", "GPUMEM_SIM_DEVICES": "2"})
    assert status == 0
    assert rows["driver"]["found"].startswith("the simulated GPU, CUDA ")
    assert rows["NVML"]["found"].startswith("2 cards")
    assert rows["GPU 0"]["found"] == rows["GPU 1"]["found"] == "gpumem simulated GPU, 24.0 GiB"
    assert rows["analyzer"]["found"].startswith("gpumem-analyze ")
    assert "command" in rows, "what test_another_projects_command_is_first has"
    assert "LD_PRELOAD" not in rows, "what doctor puts there itself is no finding"


def test_it_leaves_nothing_behind(doctor, tmp_path):
    """Even if the recorder is preloaded into everything. /dev/shm is its own there: others use this machine's."""
    left = tmp_path / "left"
    listed = ["sh", "-c", '"$@"; status=$?; LD_PRELOAD= ls -A /dev/shm >"$0"; exit $status', left]
    folder = tmp_path / "folder"
    folder.mkdir()
    env = {"LD_PRELOAD": str(harness.LIBRARY), "TMPDIR": str(folder)}
    _, rows = doctor("--simulate", env=env, prefix=[*mounted("size=64m", "/dev/shm"), *listed], cwd=folder)
    assert rows["driver"]["status"] == rows["self-test"]["status"] == "ok"
    assert (list(folder.iterdir()), left.read_text()) == ([], "")


def test_fewer_gpus_are_shown_than_there_are(doctor):
    env = {"GPUMEM_SIM_DEVICES": "2", "CUDA_VISIBLE_DEVICES": "1"}
    status, rows = doctor("--simulate", env=env)
    assert status == 0 and rows["GPUs"]["found"].startswith("1 more of this machine is hidden")
    status, rows = doctor("--simulate", env={**env, "CUDA_VISIBLE_DEVICES": ""})
    assert status == 1
    assert "error" in {rows[name]["status"] for name in ("driver", "GPUs") if name in rows}


def test_mig_is_seen(doctor):
    status, rows = doctor("--simulate", env={"GPUMEM_SIM_MIG": "2"})
    assert status == 0 and rows["MIG"]["status"] == "warning", rows["MIG"]
    assert rows["MIG"]["found"].startswith("card 0 has 2 instances")


def test_text_fits_80_columns(tmp_path):
    """Also where paths are longer than that and have letters that stdout cannot show."""
    folder = tmp_path / ("a" * 90) / "gr\u00fc\u00dfe"
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "gpumem", "doctor", "--simulate"]
    for env in ({}, {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}):
        done = harness.run(command, env={**CLEAN, **CHECKOUT, **env}, cwd=folder, check=False)
        lines = done.stdout.splitlines()
        assert lines[-1].startswith("Recording works"), harness.described(done)
        assert not [line for line in lines if len(line) > 80]
        assert done.stdout.isascii() == bool(env)


def test_each_line_of_text_is_a_check():
    checks = [check.Check("one", "ok", "word " * 30), check.Check("two", "error", "/" + "x" * 70, "do " * 40)]
    page = text.page(checks).splitlines()
    assert page[0].startswith("ok       one         word word") and max(map(len, page)) <= 80
    at = page.index("error    two")
    assert page[at + 1].strip() == "/" + "x" * 70, "a path that fits a line is not broken"
    assert page[at + 2].startswith(" " * 21 + "-> do do")
    assert page[-1] == "Recording does not work: 1 error, 0 warnings."
    assert text.verdict(checks[:1]) == "Recording works."


@pytest.mark.parametrize(
    "name", ("py38", *(pytest.param(name, marks=pytest.mark.slow) for name in ("py39", "py310", "py311", "py313", "py314", "py315", "py313t")))
)
def test_each_interpreter(name, doctor, python_env):
    """It runs the checks, and is itself known to the recorder or not."""
    python = python_env(name)
    status, rows = doctor("--simulate", python=python)
    assert status == 0, rows
    declined = {"py315": "not a release of 3.8 to 3.14", "py313t": "free-threaded"}.get(name)
    assert rows["Python"]["status"] == ("warning" if declined else "ok")
    assert rows["Python"]["found"].endswith(declined or str(rows["Python"]["found"].split(", ", 1)[1]))
    assert f"CPython {name[2]}.{name[3:].rstrip('t')}." in rows["Python"]["found"]


def test_another_python_is_asked(doctor, python_env):
    """--python is the one that runs the program."""
    status, rows = doctor("--simulate", "--python", python_env("torch215"))
    assert status == 0
    assert re.fullmatch(r"2\.15\.0\S*, built for CUDA 13\.\d", rows["PyTorch"]["found"])
    assert rows["PyTorch"]["status"] == "ok" and "CPython 3.12." in rows["Python"]["found"]
    done = harness.run([sys.executable, "-m", "gpumem", "doctor", "--python", "/no/python"], env=CHECKOUT, check=False)
    assert done.returncode == 2 and "--python /no/python: no such program" in done.stderr


def test_versions_are_those_of_the_recorder():
    """The recorder's tables are in Rust; the doctor's copy must be equal."""
    rows = (harness.ROOT / "python-frames" / "src" / "rows.rs").read_text()
    bounds = {name: tuple(map(int, pair)) for name, *pair in re.findall(r"const (OLDEST|NEWEST): .* = \((\d+), (\d+)\);", rows)}
    assert bounds == {"OLDEST": versions.OLDEST_PYTHON, "NEWEST": versions.NEWEST_PYTHON}
    table = (harness.ROOT / "docs" / "measured" / "backward.md").read_text()
    run = sorted(tuple(map(int, found)) for found in re.findall(r"^\| (\d+)\.(\d+)\.\d+ \|", table, re.M))
    assert (run[0], run[-1]) == (versions.OLDEST_TORCH, versions.NEWEST_TORCH)


SAID = {
    "implementation": "CPython", "version": "3.12.1", "minor": [3, 12], "level": "final", "executable": "python", "free_threaded": False,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"implementation": "PyPy"}, "not CPython"),
        ({"minor": [3, 7], "version": "3.7.16"}, "not a release of"),
        ({"level": "beta"}, "not a release of"),
        ({"free_threaded": True}, "free-threaded"),
    ],
)
def test_an_interpreter_without_python_stacks(changes, found):
    assert versions.python(SAID).status == "ok"
    said = versions.python({**SAID, **changes})
    assert said.status == "warning" and found in said.found and "Python stacks" in said.advice


def test_pytorch_by_its_version():
    assert versions.torch({"version": "2.6.0+cu124", "cuda": "12.4"}).status == "ok"
    assert "built without CUDA" in versions.torch({"version": "2.6.0+cpu", "cuda": None}).found
    for version in ("1.11.0+cu113", "2.16.0+cu134", "of an unknown version"):
        said = versions.torch({"version": version, "cuda": "13.2"})
        assert said.status == "warning" and "not among 1.12 to 2.15" in said.found


def program(folder, name, text):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_another_projects_command_is_first(tmp_path):
    """PyPI's project gpumem has a command of that name; the wheel's second name is used then."""

    def on_path(*folders):
        return commands.on_path(check.Machine(env={"PATH": ":".join(map(str, folders))}))

    theirs = program(tmp_path / "theirs", "gpumem", "#!/usr/bin/python3\nfrom gpumonitor.bw import main\n")
    text = f"#!{sys.executable}\nfrom gpumem.__main__ import main\n"
    ours = [program(tmp_path / "ours", name, text).parent for name in ("gpumem", "libgpumem")][0]
    assert on_path(theirs.parent, ours) == check.Check(
        "command", "warning", f"{theirs} is first on PATH and belongs to another project", "Use libgpumem in place of gpumem."
    )
    assert on_path(theirs.parent).advice == f"Use {sys.executable} -m gpumem in place of gpumem."
    # This package's own command, of an environment that is not this one.
    assert on_path(ours, theirs.parent).found.endswith("belongs to another installation of gpumem")
    assert on_path(tmp_path).found == "no command gpumem is on PATH"


def test_the_command_of_this_environment_is_first(tmp_path, monkeypatch):
    """By its folder, and by a link to it as pipx and uv make them."""
    own = program(tmp_path / "env" / "bin", "gpumem", "from gpumem.__main__ import main\n")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "gpumem").symlink_to(own)
    monkeypatch.setattr(commands, "_folders", lambda: [str(own.parent)])
    for folder in (own.parent, tmp_path / "links"):
        said = commands.on_path(check.Machine(env={"PATH": str(folder)}))
        assert said == check.Check("command", "ok", f"{folder}/gpumem is first on PATH")


def mounted(options, folder):
    """A command in whose mount namespace a file system in memory lies at this folder."""
    if os.geteuid() != 0 or harness.run(["unshare", "--mount", "true"], check=False).returncode:
        pytest.skip("mounts need root")
    script = 'mount -t tmpfs -o "$0" none "$1" && shift && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", script, options, folder]


def filled(folder):
    """Goes before a command: fills the folder's file system first."""
    return ["sh", "-c", 'dd if=/dev/zero of="$0/all" bs=4k 2>/dev/null; exec "$@"', folder]


def test_a_full_folder(doctor, tmp_path):
    full = tmp_path / "full"
    full.mkdir()
    prefix = [*mounted("size=64k", full), *filled(full)]
    status, rows = doctor("--simulate", env={"GPUMEM_OUTPUT": str(full / "report.bin")}, prefix=prefix)
    assert status == 1 and rows["output"]["status"] == "error"
    assert rows["output"]["found"] == f"{full} (tmpfs, in memory): No space left on device"
    assert rows["output"]["advice"].startswith("Free some space")


def test_a_read_only_folder(doctor, tmp_path):
    folder = tmp_path / "ro"
    folder.mkdir()
    status, rows = doctor("--simulate", env={"GPUMEM_OUTPUT": str(folder / "x.bin")}, prefix=mounted("ro", folder))
    assert status == 1 and rows["output"]["found"] == f"{folder} (tmpfs, in memory): Read-only file system"
    status, rows = doctor("--simulate", env={"GPUMEM_OUTPUT": "no/such/x.bin"})
    assert status == 1 and rows["output"]["found"] == f"{tmp_path}/no/such: no such folder"
    assert not list(tmp_path.rglob(".gpumem-doctor*"))


def test_a_folder_in_memory_or_with_little_room(doctor, tmp_path):
    folder = tmp_path / "memory"
    folder.mkdir()
    for size, advice in (("1g", "is lost when the machine restarts"), ("20m", "GPUMEM_BOUNDED=64MiB")):
        status, rows = doctor("--simulate", env={"GPUMEM_OUTPUT": str(folder / "x.bin")}, prefix=mounted(f"size={size}", folder))
        assert status == 0 and rows["output"]["status"] == "warning" and advice in rows["output"]["advice"]


def test_a_full_dev_shm(doctor):
    """The recorder uses another place, so recording works."""
    status, rows = doctor("--simulate", prefix=[*mounted("size=64k", "/dev/shm"), *filled("/dev/shm")])
    assert status == 0 and rows["ring"]["status"] == "warning" and "No space left" in rows["ring"]["found"]
    status, rows = doctor("--simulate", prefix=mounted("size=1m", "/dev/shm"))
    assert rows["ring"]["found"] == "/dev/shm, 1.00 MiB free; each process needs 4.00 MiB"
    assert status == 0 and rows["self-test"]["status"] == "ok"
    status, rows = doctor("--simulate", env={"GPUMEM_RING": "memfd"})
    assert rows["ring"] == {"check": "ring", "status": "ok", "found": "GPUMEM_RING=memfd: /dev/shm is not used", "advice": None}


def test_a_recorder_that_cannot_be_loaded(doctor, tmp_path):
    status, rows = doctor("--simulate", env={"GPUMEM_LIBRARY": "/etc/passwd"})
    assert status == 1 and rows["recorder"]["status"] == rows["self-test"]["status"] == "error"
    assert "cannot be preloaded" in rows["recorder"]["found"]
    assert "Python" in rows, "the interpreter is asked all the same"
    status, rows = doctor("--simulate", env={"GPUMEM_LIBRARY": str(tmp_path / "none.so")})
    assert status == 1 and rows["recorder"]["found"].endswith("none.so: no such file")


def test_an_analyzer_that_does_not_run(doctor, tmp_path):
    """Captures are written without it."""
    status, rows = doctor("--simulate", env={"GPUMEM_ANALYZE": "/bin/false"})
    assert status == 0 and rows["analyzer"]["status"] == rows["self-test"]["status"] == "warning"
    other = program(tmp_path, "gpumem-analyze", '#!/bin/sh\n[ "$1" = --version ] && echo gpumem-analyze 9.9.9\n')
    status, rows = doctor("--simulate", env={"GPUMEM_ANALYZE": str(other)})
    assert re.search(r"is 9\.9\.9, the package is \d", rows["analyzer"]["found"])


def test_options_that_are_set(doctor):
    [set_] = preload.options(["GPUMEM_STACKS", "GPUMEM_LIMIT"], {"GPUMEM_STACKS": "python", "GPUMEM_SIM_MEMORY": "8GiB"})
    assert set_ == check.Check("options", "ok", "GPUMEM_STACKS=python")
    _, rows = doctor("--simulate", env={"GPUMEM_STAKCS": "python"})
    assert rows["options"] == {
        "check": "options", "status": "warning", "found": "GPUMEM_STAKCS is not an option", "advice": "Did you mean GPUMEM_STACKS?",
    }  # fmt: skip


def test_the_self_test_sees_a_wrong_figure(monkeypatch):
    """The capture has exactly the allocated bytes."""
    assert preload.recording(os.environ).status == "ok"
    monkeypatch.setattr(preload, "_BYTES", 2 << 20)
    said = preload.recording(os.environ)
    assert said.status == "error" and "the capture has ['1048576'] bytes" in said.found
