"""A thread that calls the driver without the GIL while another one ends the interpreter: the memory of such a thread
that CPython frees, and that the recorder does not use it (docs/python-stacks.md, "When the interpreter ends")."""

import harness
import pytest
import zoo
from lanes import slow
from pythons import VERSIONS, versions

# Freed memory is overwritten, by CPython and by the C library.
POISON = {"PYTHONMALLOC": "debug", "MALLOC_PERTURB_": "160", "GPUMEM_QUIET": "1"}


@pytest.mark.parametrize("version", VERSIONS)
def test_cpython_frees_the_state_of_a_thread_but_not_its_frames(version, python_env, build_c, tmp_path):
    """Without the recorder: what its reads rely on."""
    library = build_c("zoo/ended.c", "-shared", "-fPIC")
    done = harness.run([python_env(version), zoo.ZOO / "python_ended.py", library], env=POISON, cwd=tmp_path)
    first, *words, last = done.stdout.splitlines()
    assert first == last == "finalizing 1"
    # 3.14 keeps it for the thread.
    assert words.pop() == ("state.interpreter same" if version == "py314" else "state.interpreter changed")
    kinds = {word.split()[0] for word in words}
    assert kinds == {"frame.previous", "frame.code", "code.type", "table.length"} and len(words) >= 24
    assert [word for word in words if not word.endswith(" same")] == []


@pytest.mark.parametrize("first, third", [(7, 2), *slow((3, 1))])
@pytest.mark.parametrize("version", versions("py312"))
def test_a_thread_that_is_held_within_a_walk_until_the_interpreter_is_gone(version, first, third, python_env, build_c, tmp_path):
    """After each `third` answer of the interpreter that it is not finalizing, where the stack is known, and after each `first` one
    where it is new and its functions' names are read."""
    python = python_env(version)
    library = build_c("zoo/held.c", "-shared", "-fPIC", "-pthread")

    def run(at, calls):
        command = [python, zoo.ZOO / "python_held.py", library, at, calls]
        return harness.simulate(command, preload=True, env=POISON, cwd=tmp_path)

    for calls, every in (1, first), (3, third):
        answers = int(run(0, calls).stdout)
        assert answers >= (7 if calls == 1 else 2)
        for at in range(1, answers + 1, every):
            assert run(at, calls).stdout == "the held call has returned\n", (calls, at)


# 3.10 crashes by itself: see test_zoo.py.
@pytest.mark.parametrize("version", versions("py38", "py312", "py314"))
def test_threads_that_allocate_while_the_interpreter_ends(version, python_env, tmp_path):
    if version == "py310":
        pytest.skip("it crashes without the recorder, too")
    for _ in range(zoo.ROUNDS):
        zoo.live_together(
            tmp_path / "with", [python_env(version), zoo.ZOO / "python_ends.py", "daemon threads"], 22, env=POISON
        )
        zoo.assert_nothing_lost(tmp_path / "with" / "report.bin")
        (tmp_path / "with" / "report.bin").unlink()
