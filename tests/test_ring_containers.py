"""Containers that share a folder in memory, as those of a Kubernetes pod share /dev/shm: their processes have
different numbers, clocks and paths. No process takes the ring of a running process, or removes the ring of a capture
that it cannot see.

What breaks these tests: a process that counts as ended because it is not in /proc or has another start time; a ring
that is removed because its capture is not at the stored path."""

import subprocess
import tempfile
import time
from pathlib import Path

import harness
import pytest
import zoo
from test_interposer import read  # noqa: F401  (fixtures are taken by name)
from test_zoo_kills import awaits, logged, recorded

CONTAINERS = {
    "its own process numbers": ["unshare", "--fork", "--kill-child", "--pid", "--mount-proc"],
    "its own clock": [
        "unshare", "--fork", "--kill-child", "--time", "--monotonic", "300000000", "--boottime", "300000000",
    ],
}


@pytest.fixture
def rings():
    """A folder for rings that no other test's programs look at."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


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
    """The program of eight threads that runs until it is killed."""

    def __init__(self, client, folder, rings, prefix=()):
        folder.mkdir()
        self.folder, self.report = folder, folder / "report.bin"
        self.process = subprocess.Popen(
            [*prefix, *harness.simulator_command([client, "log", "0"])], cwd=folder, stdout=subprocess.PIPE,
            env=harness.clean_environment(
                harness.preloaded({"GPUMEM_RING": str(rings), "GPUMEM_QUIET": "1", "GPUMEM_SIM_CARD": ""})
            ),
        )
        assert self.process.stdout.readline() == b"ready\n"
        awaits(folder / "log", 2_000, self.process)

    def kill(self):
        """And waits until its own threads are gone, also in a container that only ends after what started it."""
        self.process.kill()
        self.process.wait(timeout=60)
        assert self.process.stdout.read() == b""
        self.process.stdout.close()

    def assert_all_is_there(self, read):  # noqa: F811
        zoo.assert_nothing_lost(self.report)
        found = recorded(read(self.report, whole=False), "driver")
        for thread, entries in logged(self.folder / "log").items():
            assert found.get(thread, [])[: len(entries)] == entries, f"thread {thread}"


def swept(client, folder, rings, prefix=()):
    """Runs a recorded program to its end by SIGKILL, so that it looks for what others have left in `rings`."""
    other = Program(client, folder, rings, prefix)
    time.sleep(0.3)
    other.kill()


def test_a_program_in_a_container_leaves_the_rings_of_others(container, client, rings, read, tmp_path):  # noqa: F811
    program = Program(client, tmp_path / "program", rings)
    ring = harness.ring_of(program.report)
    swept(client, tmp_path / "other", rings, container)
    assert ring.exists(), "its process runs"
    program.kill()
    program.assert_all_is_there(read)


def test_a_ring_of_a_container_is_left_until_its_program_has_ended(container, client, rings, tmp_path):
    program = Program(client, tmp_path / "program", rings, container)
    ring = harness.ring_of(program.report)
    swept(client, tmp_path / "other", rings)
    assert ring.exists(), "its process runs"
    running = zoo.checked(program.report)
    assert running["ending"] == "running" and ring.exists(), running
    program.kill()
    # The recorder's threads may be the last to end.
    deadline = time.monotonic() + 30
    while zoo.checked(program.report)["ending"] == "running" and time.monotonic() < deadline:
        time.sleep(0.01)
    state = zoo.assert_nothing_lost(program.report)
    assert state["ending"] == "killed" and not ring.exists(), state


def test_a_ring_whose_capture_is_in_another_container_stays(client, rings, read, tmp_path):  # noqa: F811
    """The other container has separate files at the path of the capture."""
    hides = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', tmp_path / "program"]
    if harness.run([*hides[:-1], tmp_path, "true"], check=False).returncode != 0:
        pytest.skip("this user may not mount a file system")
    program = Program(client, tmp_path / "program", rings)
    program.kill()
    ring = harness.ring_of(program.report)
    swept(client, tmp_path / "other", rings, hides)
    assert ring.exists(), "its capture is only not to be seen"
    program.assert_all_is_there(read)
    assert not ring.exists()


def test_a_ring_whose_capture_was_deleted_goes(client, rings, tmp_path):
    program = Program(client, tmp_path / "program", rings)
    program.kill()
    ring = harness.ring_of(program.report)
    program.report.unlink()
    swept(client, tmp_path / "other", rings)
    assert not ring.exists()
