"""Python frames read without the GIL, and line tables decoded offline, against each CPython here.

The probe (interposer/examples/python_probe.rs) takes stacks with the recorder's own code; the
workloads compare them with what the interpreter says of itself.
"""

import subprocess

import harness
import pytest

VERSIONS = ["py38", "py39", "py310", "py311", "py312", "py313", "py314"]


def example(package, name):
    """Builds an example of a crate and returns what cargo made."""
    subprocess.run(
        ["cargo", "build", "--release", "--quiet", "-p", package, "--example", name],
        cwd=harness.ROOT, check=True,
    )
    return harness.RELEASE / "examples"


@pytest.fixture(scope="module")
def probe():
    return example("gpumem", "python_probe") / "libpython_probe.so"


@pytest.fixture(scope="module")
def decode_lines():
    decoder = example("gpumem-analyze", "decode_lines") / "decode_lines"

    def decode(path):
        with open(path) as file:
            done = subprocess.run(
                [decoder], stdin=file, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
        assert done.returncode == 0, done.stdout[-4000:]
        fields = done.stdout.split()
        return {name: int(value) for name, value in zip(fields[::2], fields[1::2])}

    return decode


@pytest.mark.parametrize("version", VERSIONS)
def test_frames_are_the_interpreters_own(version, python_env, probe, decode_lines, tmp_path):
    python = python_env(version)
    done = harness.run([python, harness.WORKLOADS / "python_frames.py", probe, tmp_path])
    words = done.stdout.split()
    assert words[0] == "checked" and int(words[1]) > 15_000 and int(words[4]) > 3_500, done.stdout
    lines = decode_lines(tmp_path / "lines.txt")
    assert lines["compared"] > 500


@pytest.mark.parametrize("version", VERSIONS)
def test_line_tables_of_the_standard_library(version, python_env, decode_lines, tmp_path):
    python = python_env(version)
    dump = tmp_path / "lines.txt"
    with open(dump, "w") as file:
        subprocess.run(
            [python, harness.WORKLOADS / "python_lines.py"],
            stdout=file, check=True, env=harness.clean_environment(),
        )
    lines = decode_lines(dump)
    assert lines["objects"] > 10_000 and lines["compared"] > 1_000_000, lines


@pytest.mark.parametrize("version", ["py310", "py312", "py313"])
def test_cost_grows_with_depth_only(version, python_env, probe):
    """A walk of 30 frames takes well under what one call into Python takes: nothing else is done."""
    script = (
        "import ctypes, sys\n"
        "probe = ctypes.CDLL(sys.argv[1])\n"
        "for name in ('probe_walk_cost', 'probe_take_cost'):\n"
        "    getattr(probe, name).restype = ctypes.c_double\n"
        "def down(depth):\n"
        "    if depth:\n"
        "        return down(depth - 1)\n"
        "    probe.probe_take(1)\n"
        "    print(min(probe.probe_walk_cost(20000) for _ in range(5)),\n"
        "          min(probe.probe_take_cost(1, 20000) for _ in range(5)))\n"
        "down(27)\n"
    )
    done = harness.run([python_env(version), "-c", script, probe])
    walk, take = map(float, done.stdout.split())
    # Far above what was measured (docs/measured), to hold on a loaded machine.
    assert 0 < walk < 3_000 and 0 < take < 5_000, done.stdout


def test_a_library_in_the_place_of_an_unloaded_one(python_env, probe, build_c):
    """Stacks with the very same addresses, but through another library, are other stacks."""
    libraries = [build_c("call_back.c", "-shared", "-fPIC", f"-DANSWER={i}") for i in (1, 2)]
    done = harness.run(
        [python_env("py312"), harness.WORKLOADS / "python_unloads.py", probe, *libraries, *libraries]
    )
    *taken, last = [line.split() for line in done.stdout.splitlines()]
    assert [name for _, name in taken] == [path.name for path in libraries * 2]
    assert len({number for number, _ in taken}) == 4
    # The last one is unloaded too, but no stack came after that.
    assert last == ["ended", "3", "addresses", "1"]
