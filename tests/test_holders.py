"""Who keeps objects, found on CPython's heap, against what tests/workloads/holders has planted, on each CPython here."""

import platform

import harness
import pytest
from pythons import VERSIONS, versions

FOLDER = harness.WORKLOADS / "holders"


@pytest.fixture(scope="module")
def library():
    """holders/examples/find_holders.rs"""
    return harness.EXAMPLES / "libfind_holders.so"


@pytest.fixture(scope="module")
def walks(library, python_env):
    """walks(version, mode) runs walks.py of the folder and returns the words that it prints."""

    def run(version, mode):
        return harness.run([python_env(version), FOLDER / "walks.py", library, mode]).stdout.split()

    return run


@pytest.mark.parametrize("version", versions("py38", "py312", "py314"))
def test_planted_holders_are_found_and_free_what_is_said(version, python_env, library):
    """The text, the place, and what is really freed without the holder."""
    done = harness.run([python_env(version), FOLDER / "run.py", library])
    word, count, _, failed = done.stdout.splitlines()[-1].split()
    assert (word, failed) == ("checked", "0") and int(count) >= 70, harness.described(done)


@pytest.mark.parametrize("version", versions("py38", "py312", "py314"))
def test_what_functions_read_again(version, python_env, library):
    """By an analysis of the same instructions, at random places of the standard library, and by what its functions read."""
    done = harness.run([python_env(version), FOLDER / "reads.py", library])
    _, count, unread, _, of_runs, unread_in_runs = done.stdout.split()
    assert int(count) > int(unread) > 500 and int(of_runs) > int(unread_in_runs) > 500, harness.described(done)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_walk_runs_no_code_of_the_program_and_changes_nothing(version, walks):
    """Hooks for audits, traces, profiles and collections see the same as without a walk; no reference, no block of
    memory and no object of the collector is left, and the exception that is being handled stays."""
    word, events, deleted = walks(version, "quiet")
    assert word == "quiet" and int(events) > 10 and int(deleted) == 1


@pytest.mark.parametrize("version", versions("py38", "py312", "py314"))
def test_other_threads_run_meanwhile(version, walks):
    """A thread that Python does not know has no result."""
    assert walks(version, "threads") == ["threads", "0", "1"]


@pytest.mark.parametrize("version", VERSIONS)
def test_there_is_no_walk_while_the_interpreter_ends(version, walks):
    """Functions of atexit are called before it ends, those of Py_AtExit while it does."""
    assert walks(version, "end") == ["atexit", "1", "other", "0", "own", "0"]


# CPython 3.9 itself waits forever if a thread that waits for its lock must end: drop_gil waits for it to take the lock.
@pytest.mark.parametrize("version", [version for version in VERSIONS if version != "py39"])
def test_a_thread_that_waits_while_the_interpreter_ends(version, walks):
    assert walks(version, "waiting") == []


@pytest.mark.parametrize("version", VERSIONS)
def test_other_interpreters_are_not_walked(version, walks):
    """Nor is the lock waited for that the thread has as another interpreter's. A thread that runs code of another one,
    and has released the lock, walks the main one up to 3.11."""
    with_lock, without, in_thread, let_go, word = walks(version, "interpreters")
    assert (with_lock, in_thread, let_go, word) == ("0", "0", "0", "interpreters") and without in "01"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_walk_that_reaches_a_bound_is_marked(version, walks):
    assert walks(version, "bounds") == ["bounds"]


@pytest.mark.parametrize("version", versions("py38", "py312", "py314"))
def test_a_walk_costs_little(version, walks):
    """In the time of the thread's processor, against a collection of the same heap."""
    words = walks(version, "cost")
    cost = {name: float(value) for name, value in zip(words[::2], words[1::2])}
    assert cost["objects"] > 330_000 and cost["references"] > 1_300_000
    # Another processor's counters may differ more.
    most = 8 if platform.machine() == "x86_64" else 16
    assert 0 < cost["walk"] < most * cost["collection"], cost
