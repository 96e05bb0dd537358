"""libgpumem.so by itself: its options, the path of the capture, its messages, and its C API."""

import os
import re
from pathlib import Path

import harness
import pytest
from test_interposer import QUIET, read  # noqa: F401  (fixtures are taken by name)


@pytest.fixture
def client(build_c):
    return [build_c("hook_lookup.c", "-ldl"), "handle"]


def test_the_line_at_exit(client, simulate, tmp_path):
    done = simulate(client, preload=True)
    assert done.stderr == "gpumem: wrote report.bin. Read it with: gpumem-analyze report.bin\n"


def test_names(client, simulate, tmp_path):
    """Earlier captures are never touched; %p, %r and %h; ranks from launchers."""
    def files(**env):
        before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.bin")}
        simulate(client, preload=True, env={**QUIET, **env})
        after = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.bin")}
        assert all(after[path] == before[path] for path in before)
        return [p.relative_to(tmp_path).as_posix() for p in after if p not in before]

    assert files() == ["report.bin"]
    assert files() == ["report-2.bin"]
    assert files() == ["report-3.bin"]
    assert files(GPUMEM_OUTPUT="a.b.bin") == ["a.b.bin"]
    assert files(GPUMEM_OUTPUT="a.b.bin") == ["a.b-2.bin"]
    (folder := tmp_path / "out").mkdir()
    assert files(GPUMEM_OUTPUT=str(folder / "r%r-%h.bin"), RANK="5", WORLD_SIZE="8") == [
        f"out/r5-{os.uname().nodename}.bin"
    ]
    [by_pid] = files(GPUMEM_OUTPUT="p%p.bin")
    assert re.fullmatch(r"p\d+\.bin", by_pid)
    assert files(RANK="3", WORLD_SIZE="4") == ["report.rank3.bin"]
    assert files(RANK="3", WORLD_SIZE="4") == ["report.rank3-2.bin"]
    assert files(OMPI_COMM_WORLD_RANK="1", OMPI_COMM_WORLD_SIZE="2") == ["report.rank1.bin"]
    assert files(SLURM_PROCID="2", SLURM_NTASKS="4") == ["report.rank2.bin"]


def test_facts(client, simulate, read, tmp_path):  # noqa: F811
    simulate(client, preload=True, env={**QUIET, "RANK": "3", "WORLD_SIZE": "4", "GPUMEM_STACKS": "off"})
    facts = read(tmp_path / "report.rank3.bin").facts
    assert facts["command"] == f"{client[0]} handle"
    assert facts["executable"] == str(Path(client[0]).resolve())
    assert facts["directory"] == str(tmp_path)
    assert (facts["rank"], facts["world_size"]) == ("3", "4")
    assert facts["driver_version"] == "13020"
    assert facts["stacks"] == "off"


@pytest.mark.parametrize("where", ("a file", "a read-only folder"))
def test_an_output_that_cannot_be_written(where, client, simulate, tmp_path):
    (tmp_path / "file").write_text("")
    output = {
        "a file": tmp_path / "file" / "report.bin",
        "a read-only folder": Path("/proc/report.bin"),
    }[where]
    without = simulate(client)
    done = simulate(client, preload=True, env={"GPUMEM_OUTPUT": str(output)})
    assert done.stdout == without.stdout
    [line] = done.stderr.splitlines()
    assert line.startswith("gpumem: ") and str(output.parent) in line and "GPUMEM_OUTPUT" in line


@pytest.mark.parametrize(
    "name, value", (
        ("GPUMEM_STACKS", "all"), ("GPUMEM_RING", "many"), ("GPUMEM_RING_SLOTS", "many"), ("GPUMEM_QUIET", "yes"), ("GPUMEM_BOUNDED", "1MiB"),
    )
)
def test_an_option_that_is_none(name, value, client, simulate, tmp_path):
    """One line that names variable, value and what is accepted; the default holds."""
    done = simulate(client, preload=True, env={**QUIET, name: value})
    line = done.stderr.splitlines()[0]
    assert line.startswith(f"gpumem: {name}={value}: ") and "ccepted" in line
    assert (tmp_path / "report.bin").is_file()


def test_the_docs_are_the_table(python_env):
    """docs/environment.md holds the options as the library itself prints them."""
    script = (
        "import ctypes, sys\n"
        "lib = ctypes.CDLL(None)\n"
        "text = ctypes.create_string_buffer(lib.gpumem_help_env(None, 0) + 1)\n"
        "lib.gpumem_help_env(text, len(text))\n"
        "sys.stdout.write(text.value.decode())\n"
    )
    told = harness.run([python_env("py312"), "-c", script], env=harness.preloaded()).stdout
    assert told.startswith("GPUMEM_OUTPUT\n")
    assert told in (harness.ROOT / "docs" / "environment.md").read_text()


def test_stderr_that_became_something_else(build_c, simulate, tmp_path):
    """When a program closes descriptor 2 and opens a file in its place, gpumem writes no line into that file."""
    client = build_c("hook_lookup.c", "-ldl")
    command = ["bash", "-c", 'exec 2> own-file; exec "$0" handle', client]
    done = simulate(command, preload=True, env={"GPUMEM_QUIET": "1"})
    assert (done.stderr, (tmp_path / "own-file").read_text()) == ("", "")
    command = ["bash", "-c", 'exec 2>&-; exec "$0" handle', client]
    done = simulate(command, preload=True)
    assert done.stderr == ""


def test_the_c_api_from_python(python_env, simulate, tmp_path):
    script = (
        "import ctypes, gc\n"
        "lib = ctypes.CDLL(None)\n"
        "assert lib.gpumem_api_version() == 8\n"
        "assert lib.gpumem_recording() == 0\n"
        "out = (ctypes.c_uint64 * 4)()\n"
        "assert lib.gpumem_counters(0, 1, out) == 1\n"
        "assert lib.gpumem_counters(0, 9, out) == 2\n"
        "assert lib.gpumem_counters(0, 1, None) == 2\n"
        "lib.gpumem_holders.restype = ctypes.c_ssize_t\n"
        "assert (lib.gpumem_holders(0, None, 0), lib.gpumem_holders(-1, None, 0)) == (0, -1)\n"
        "text = ctypes.create_string_buffer(lib.gpumem_help_env(None, 0) + 1)\n"
        "lib.gpumem_help_env(text, len(text))\n"
        "assert b'GPUMEM_OUTPUT' in text.value and len(text.value) == len(text) - 1\n"
        "short = ctypes.create_string_buffer(8)\n"
        "lib.gpumem_help_env(short, 8)\n"
        "assert short.value == text.value[:7]\n"
        "cuda = ctypes.CDLL('libcuda.so.1')\n"
        "context, pointer = ctypes.c_void_p(), ctypes.c_uint64()\n"
        "assert cuda.cuInit(0) == 0\n"
        "assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0\n"
        "assert cuda.cuCtxSetCurrent(context) == 0\n"
        "assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(12345)) == 0\n"
        "assert lib.gpumem_recording() == 1\n"
        "assert lib.gpumem_counters(0, 1, out) == 0\n"
        "assert list(out) == [12345, 12345, 1, 0]\n"
        "text = ctypes.create_string_buffer(1 << 16)\n"
        "assert lib.gpumem_holders(0, text, ctypes.c_size_t(len(text))) == len(text.value)\n"
        "assert text.value.startswith(b'walk whole ') and text.value.endswith(b' 0\\n'), 'no tensors'\n"
    )
    done = simulate([python_env("py312"), "-c", script], preload=True, env=QUIET)
    assert (done.stdout, done.stderr) == ("", "")
    assert os.listdir(tmp_path) == ["report.bin"]
