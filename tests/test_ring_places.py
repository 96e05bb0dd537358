"""The location of the ring if one is not usable: one line reports it, and the capture is exact nevertheless.

What breaks these tests: a place on a disk, a full place that ends recording, memory that is reserved for a queue
that is not in use, a store to memory that the file system does not have (SIGBUS)."""

import os
import subprocess

import harness
import pytest
import zoo


@pytest.fixture
def client(build_c):
    return build_c("hook_threads.c", "-ldl", "-pthread")


@pytest.fixture
def in_memory(tmp_path):
    """in_memory("2m"): a folder in memory of that size."""
    mounted = []

    def mount(size):
        folder = tmp_path / f"memory-{size}"
        folder.mkdir()
        if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder]).returncode:
            pytest.skip("this user may not mount a file system")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "-l", folder], check=True)


def recorded(simulate, client, folder, ring):
    folder.mkdir(exist_ok=True)
    done = simulate([client, "join"], preload=True, cwd=folder, env={"GPUMEM_RING": str(ring), "GPUMEM_QUIET": "1"})
    zoo.assert_whole(folder / "report.bin")
    return done.stderr


def test_a_folder_on_a_disk_or_none_at_all_is_passed_over(simulate, client, tmp_path):
    for ring, why in ((tmp_path, "it does not lie in memory"), ("/nonexistent", "No such file or directory")):
        said = recorded(simulate, client, tmp_path / why.replace(" ", "-"), ring)
        assert said.startswith(f"gpumem: no ring in {ring}: {why}") and said.count("\n") == 1, said


def test_a_folder_that_is_full_is_passed_over(simulate, client, tmp_path, in_memory):
    folder = in_memory("2m")
    said = recorded(simulate, client, tmp_path / "program", folder)
    assert said.startswith(f"gpumem: no ring in {folder}: No space left") and said.count("\n") == 1, said
    assert os.listdir(folder) == []


def test_eight_processes_fit_into_64_mb(simulate, client, tmp_path, in_memory):
    """Docker gives a container that much of /dev/shm."""
    folder = in_memory("64m")
    programs = []
    for number in range(8):
        (tmp_path / str(number)).mkdir()
        programs.append(
            subprocess.Popen(
                harness.simulator_command([client, "join"]), cwd=tmp_path / str(number), stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE, text=True,
                env=harness.clean_environment(
                    harness.preloaded({"GPUMEM_RING": str(folder), "GPUMEM_QUIET": "1", "GPUMEM_SIM_CARD": ""})
                ),
            )
        )
    for number, program in enumerate(programs):
        assert program.communicate(timeout=240)[1] == "" and program.returncode == 0
        zoo.assert_whole(tmp_path / str(number) / "report.bin")
    assert os.listdir(folder) == []


NO_MORE = "gpumem: no memory is left where the ring is. The rest of it is in unnamed memory: a kill loses up to 50 ms of events."


@pytest.mark.parametrize("ends", ("exits", "is killed"))
def test_a_folder_that_becomes_full(ends, simulate, build_c, tmp_path, in_memory):
    """Before the ring and its queue have all of their memory. There is one line, and only a kill loses something."""
    folder, client = in_memory("5m"), build_c("ring_room.c", "-ldl")
    kill = ["kill"] if ends == "is killed" else []
    done = simulate(
        [client, folder, *kill], preload=True, cwd=tmp_path, check=False,
        env={"GPUMEM_RING": str(folder), "GPUMEM_QUIET": "1", "GPUMEM_STACKS": "off"},
    )
    assert done.returncode == (-9 if kill else 0), harness.described(done)
    assert done.stderr.splitlines() in ([NO_MORE], [] if kill else [NO_MORE]), done.stderr
    assert os.listdir(folder) == ["filler"]
    report = tmp_path / "report.bin"
    if kill:
        # What was written is read, and the account shows that the ring is gone.
        assert harness.analyze("report", "--all", report, check=False).returncode == 3
    else:
        zoo.assert_exact(report, done.stdout)
