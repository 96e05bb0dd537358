"""Python and C frames of one stack, in the order of their calls, under each CPython here.

What breaks these tests: a C frame between the wrong Python frames, an evaluation function that is not recognised (a
part of it that the compiler placed elsewhere, in an interpreter without its symbol table), or an internal frame of
the interpreter that counts as a function's."""

import json

import harness
import pytest

VERSIONS = ["py38", "py39", "py310", "py311", "py312", "py313", "py314"]


def called(frame):
    """The function of a frame of the workload or of its C library, without what it is part of."""
    name = frame.split(" (")[0].rsplit(".", 1)[-1]
    return name if "/mixed_stack.py:" in frame or name == "call_back" else None


@pytest.mark.parametrize("version", VERSIONS)
def test_c_frames_stand_between_their_python_frames(
    version, python_env, build_c, simulate, analyze, tmp_path
):
    library = build_c("call_back.c", "-shared", "-fPIC", "-DANSWER=1")
    done = simulate([python_env(version), harness.WORKLOADS / "mixed_stack.py", library], preload=True)
    expected = {size: ["<module>", *names] for size, names in json.loads(done.stdout)}
    folded = analyze("flamegraph", "--native", "--level", "driver", "--format", "folded", tmp_path / "report.bin")
    found = {}
    for line in folded.stdout.splitlines():
        stack, size = line.rsplit(" ", 1)
        frames = stack.split(";")
        assert not any(frame.startswith("(") for frame in frames), line
        assert int(size) not in found, line
        found[int(size)] = [name for name in map(called, frames) if name]
    assert found == expected
