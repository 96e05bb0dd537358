"""The recorder's file descriptors under filters of system calls. The thread that writes the capture has a separate
table of descriptors, so a program can close all descriptors and open files under their numbers without touching the
recorder's.

What breaks these tests: a thread that keeps the program's table (its descriptor is closed, or its bytes are written
to the program's file), a table with a copy of the program's descriptors, and a thread that keeps the credentials
that the program drops."""

import os
import shutil

import harness
import pytest
import zoo

# Filters under which the thread has a separate table: tests/workloads/own_descriptors.c.
FILTERS = ("open", "docker")
RINGS = ("auto", "file")
ROUNDS = int(os.environ.get("GPUMEM_DESCRIPTORS_ROUNDS", "1"))


@pytest.fixture(scope="session")
def client(build_c):
    return build_c("own_descriptors.c", "-ldl", "-pthread")


def assert_own_is_exact(path):
    """The program's file has the lines that it wrote, and no other byte."""
    content = path.read_bytes()
    assert content and content == b"".join(b"%015d\n" % line for line in range(len(content) // 16))


@pytest.mark.parametrize("ring", RINGS)
@pytest.mark.parametrize("which", FILTERS)
def test_a_program_that_takes_all_numbers_over_and_over(which, ring, client, tmp_path):
    for number in range(ROUNDS):
        folder = tmp_path / str(number)
        zoo.live_together(folder, [client, which, "churn"], 21, recorder_env={**zoo.LARGE_RING, "GPUMEM_RING": ring})
        assert_own_is_exact(folder / "own")
        zoo.assert_whole(folder / "report.bin")


@pytest.mark.parametrize("ring", RINGS)
def test_a_program_that_takes_all_numbers_once_where_no_table_is_to_be_had(ring, client, tmp_path):
    folder = tmp_path / "program"
    zoo.live_together(folder, [client, "closed", "once"], 21, recorder_env={**zoo.LARGE_RING, "GPUMEM_RING": ring})
    assert_own_is_exact(folder / "own")
    zoo.assert_whole(folder / "report.bin")


@pytest.mark.parametrize("which, removed", (("open", True), ("closed", False)))
def test_old_rings_are_looked_for_by_a_thread_with_a_table_alone(which, removed, client, simulate, rings, tmp_path):
    """In the program's table it would read, write and close what the program opened under its numbers."""
    old = rings / "gpumem-ring-of-nobody"
    old.touch()
    os.utime(old, (0, 0))
    env = {**zoo.QUIET, **zoo.LARGE_RING, "GPUMEM_RING": str(rings)}
    simulate([client, which, "once", *[old] * removed], preload=True, check=False, env=env)
    assert old.exists() != removed
    zoo.assert_whole(tmp_path / "report.bin")


# Without a ring that has a name, no thread looks for others' rings and shares the table for it.
@pytest.mark.parametrize("ring, holds", (("memfd", {"/memfd:gpumem-ring (deleted)"}), ("file", set())))
@pytest.mark.parametrize("which", FILTERS)
def test_the_thread_has_nothing_open_but_the_capture(which, ring, holds, client, simulate, tmp_path):
    """Of the program's it has not even standard input: a pipe would not end before the program."""
    done = simulate([client, which, "list"], preload=True, env={**zoo.QUIET, "GPUMEM_RING": ring})
    assert set(done.stdout.splitlines()) == {*holds, str(tmp_path / "report.bin")}, harness.described(done)
    assert done.stderr == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="this user may not change groups")
@pytest.mark.parametrize("which", FILTERS)
def test_credentials_that_change_while_the_recorder_starts(which, client, simulate, tmp_path):
    for number in range(10 * ROUNDS):
        folder = tmp_path / str(number)
        folder.mkdir()
        done = simulate([client, which, "group"], preload=True, env=zoo.QUIET, cwd=folder)
        groups = {tuple(map(int, line.split()[1:])) for line in done.stdout.splitlines()}
        assert groups == {(os.getgid(), 65534, os.getgid(), 65534)}, harness.described(done)


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="there is no Valgrind")
@pytest.mark.parametrize("which", FILTERS)
def test_valgrind(which, client, simulate, tmp_path):
    """It ends a program at a call of the kernel's that it does not know."""
    done = simulate(["valgrind", "--tool=none", "-q", client, which, "list"], preload=True, env=zoo.QUIET)
    assert str(tmp_path / "report.bin") in done.stdout.splitlines()
    assert done.stderr == ""
    zoo.assert_whole(tmp_path / "report.bin")
