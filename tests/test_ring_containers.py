"""Containers that share a folder in memory, as those of a Kubernetes pod share /dev/shm: their processes have
different numbers, clocks and paths. No process takes the ring of a running process, or removes the ring of a capture
that it cannot see.

What breaks these tests: a process that counts as ended because it is not in /proc or has another start time; a ring
that is removed because its capture is not at the stored path."""

import os
import subprocess

import harness
import pytest
import zoo
from kept import THREADS, awaits, logged, recorded
from test_interposer import read  # noqa: F401  (fixtures are taken by name)
from waiting import until

CONTAINERS = {
    "its own process numbers": ["unshare", "--fork", "--kill-child", "--pid", "--mount-proc"],
    "its own clock": [
        "unshare", "--fork", "--kill-child", "--time", "--monotonic", "300000000", "--boottime", "300000000",
    ],
}


@pytest.fixture(params=CONTAINERS)
def container(request):
    command = CONTAINERS[request.param]
    if harness.run([*command, "true"], check=False).returncode != 0:
        pytest.skip("no such namespaces may be made here")
    return command


@pytest.fixture
def client(build_c):
    return build_c("zoo/killed.c", "-ldl", "-pthread")


class Program:
    """The program of eight threads, each of which makes some calls and then waits until it is killed."""

    CALLS = 500

    def __init__(self, client, folder, rings, prefix=()):
        folder.mkdir()
        self.folder, self.report = folder, folder / "report.bin"
        self.process = subprocess.Popen(
            [*prefix, *harness.simulator_command([client, "log", "0", str(self.CALLS)])], cwd=folder, stdout=subprocess.PIPE,
            env=harness.clean_environment(
                harness.preloaded({"GPUMEM_RING": str(rings), "GPUMEM_QUIET": "1", "GPUMEM_SIM_CARD": ""})
            ),
        )
        assert self.process.stdout.readline() == b"ready\n"
        awaits(folder / "log", THREADS * self.CALLS, self.process)

    def kill(self):
        """And waits until its own threads are gone, also in a container that only ends after what started it."""
        self.process.kill()
        self.process.wait(timeout=240)
        assert self.process.stdout.read() == b""
        self.process.stdout.close()

    def assert_all_is_there(self, read):  # noqa: F811
        zoo.assert_nothing_lost(self.report)
        found = recorded(read(self.report, whole=False), "driver")
        for thread, entries in logged(self.folder / "log").items():
            assert found.get(thread, [])[: len(entries)] == entries, f"thread {thread}"


@pytest.fixture
def swept(client, rings, tmp_path):
    """swept(prefix) runs a recorded program until it has looked at all files in `rings`, then kills it. It removes the
    first and the last of them, which are old and no rings, whichever way it goes through the folder."""
    first, last = rings / "gpumem-ring-first", rings / "gpumem-ring-last"
    first.touch()

    def sweep(prefix=()):
        last.touch()
        for each in (first, last):
            os.utime(each, (0, 0))
        other = Program(client, tmp_path / "other", rings, prefix)
        until(lambda: not first.exists() and not last.exists(), "the other program has looked at all rings")
        other.kill()

    return sweep


def test_a_program_in_a_container_leaves_the_rings_of_others(container, client, rings, swept, read, tmp_path):  # noqa: F811
    program = Program(client, tmp_path / "program", rings)
    ring = harness.ring_of(program.report)
    swept(container)
    assert ring.exists(), "its process runs"
    program.kill()
    program.assert_all_is_there(read)


def test_a_ring_of_a_container_is_left_until_its_program_has_ended(container, client, rings, swept, tmp_path):
    program = Program(client, tmp_path / "program", rings, container)
    ring = harness.ring_of(program.report)
    swept()
    assert ring.exists(), "its process runs"
    running = zoo.checked(program.report)
    assert running["ending"] == "running" and ring.exists(), running
    program.kill()
    # The recorder's threads may be the last to end.
    until(lambda: zoo.checked(program.report)["ending"] != "running", "the end of the program")
    state = zoo.assert_nothing_lost(program.report)
    assert state["ending"] == "killed" and not ring.exists(), state


def test_a_ring_whose_capture_is_in_another_container_stays(client, rings, swept, read, tmp_path):  # noqa: F811
    """The other container has separate files at the path of the capture."""
    hides = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', tmp_path / "program"]
    if harness.run([*hides[:-1], tmp_path, "true"], check=False).returncode != 0:
        pytest.skip("this user may not mount a file system")
    program = Program(client, tmp_path / "program", rings)
    program.kill()
    ring = harness.ring_of(program.report)
    swept(hides)
    assert ring.exists(), "its capture is only not to be seen"
    program.assert_all_is_there(read)
    assert not ring.exists()


def test_a_ring_whose_capture_was_deleted_goes(client, rings, swept, tmp_path):
    program = Program(client, tmp_path / "program", rings)
    program.kill()
    ring = harness.ring_of(program.report)
    program.report.unlink()
    swept()
    assert not ring.exists()
