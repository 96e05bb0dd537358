"""Captures on disks that fail while a program runs: full, frozen, slow, failing, cut off or overwritten by others.
The program is not affected: same output and status as without the recorder, and at most two lines on stderr, which
report what happened to the recording. No figure of the remaining capture may be silently wrong.

No call of the driver waits for the disk: while it holds requests, each thread of the program goes on.
test_hostile_times.py has the bounds of time, test_disks.py the disks themselves.

The slow lane has further kinds of each failure, and campaigns: GPUMEM_HOSTILE_RUNS=50 overwrites the head in 50 runs,
GPUMEM_HOSTILE_CUTS=200 cuts the file off in 200 (docs/measured/disks.md).

What breaks these tests: a store of the program's threads to a page of the file, a lock that is held across a request
to the file's disk and that a hook takes, figures that are read back from the file, and an end that waits for the
disk."""

import contextlib
import os
import random
import subprocess

import beside
import disks
import harness
import pytest
from lanes import lanes
from waiting import until

SEED = int(os.environ.get("GPUMEM_HOSTILE_SEED", "1"))
RUNS = lanes(range(int(os.environ.get("GPUMEM_HOSTILE_RUNS", "10"))))
CUTS = lanes(range(int(os.environ.get("GPUMEM_HOSTILE_CUTS", "10"))))


@pytest.fixture(scope="session")
def client(build_c):
    return build_c("steady.c", "-ldl", "-pthread")


@pytest.fixture(scope="session")
def without(client, tmp_path_factory):
    """The program without the recorder, which does the same each time."""
    with beside.started(client, tmp_path_factory.mktemp("steady") / "without") as run:
        return run.finish()


@pytest.fixture
def steady(client, without, tmp_path):
    """steady(output): the program with the recorder, once each thread has done some rounds."""

    @contextlib.contextmanager
    def start(output, **env):
        with beside.recorded(client, tmp_path / "run", output, **env) as run:
            run.goes_on(50)
            yield run

    return start


@pytest.fixture
def judged(without):
    """Ends a run. The program was not affected, and the captures in the folder are right or marked as wrong: on stderr
    too or, with `left_in`, by gpumem-analyze alone."""

    def judge(run, folder, look=beside.assert_told):
        recorded = run.finish()
        beside.assert_unharmed(without, recorded)
        return recorded, look(folder, recorded)

    return judge


@pytest.fixture
def fuse(tmp_path):
    with disks.fuse_disk(tmp_path / "fuse") as disk:
        yield disk


@pytest.fixture
def loop(tmp_path):
    """loop("ext4", "64M"): one disk a test."""
    with contextlib.ExitStack() as stack:
        yield lambda kind, size: stack.enter_context(disks.loop_disk(kind, size, tmp_path / kind))


def test_nothing_goes_wrong(fuse, steady, judged):
    """The measure itself: on a disk that works the capture is exact."""
    with steady(fuse.folder / "report.bin") as run:
        run.goes_on()
        recorded, left = judged(run, fuse.folder)
    assert [each.codes for each in left] == [(0, 0)]
    assert len(recorded.says) == 1 and beside.WROTE.match(recorded.says[0])


def test_the_measure_sees_calls_that_wait(steady, judged, tmp_path):
    """A driver that sleeps in an allocation."""
    with steady(tmp_path / "report.bin", GPUMEM_SIM_ALLOCATION_US="100") as run:
        with pytest.raises(AssertionError, match="calls waited [0-9]+ times"):
            judged(run, tmp_path)


def test_the_measure_sees_a_call_that_waits_for_a_disk(loop, client, steady, judged, tmp_path):
    """With the ring in the capture, calls wait as long as it is frozen (docs/ring.md)."""
    disk = loop("ext4", "128M")
    with steady(disk.folder / "report.bin", GPUMEM_RING="file") as run:
        disk.freeze()
        until(lambda: (client.name, "D") in run.threads(), run.threads)
        with beside.started(client, tmp_path / "other") as other:
            other.goes_on()
        assert (client.name, "D") in run.threads(), "it would not have gone on"
        disk.thaw()
        run.goes_on()
        judged(run, disk.folder)


# (a) A disk that others fill up.


@pytest.mark.parametrize("kind", lanes(("ext4", "btrfs")))
def test_a_disk_that_another_program_fills(kind, loop, steady, judged):
    """btrfs takes new blocks for what is written again, where ext4 has those that were reserved."""
    disk = loop(kind, "128M")
    with steady(disk.folder / "report.bin") as run:
        disk.sync()
        disk.fill()
        disk.sync()
        run.goes_on()
        judged(run, disk.folder)


# (b) Others truncate the file.

TRUNCATIONS = {
    "redirection": ': > "$1"', "cp": 'cp /dev/null "$1"', "truncate 4096": 'truncate -s 4096 "$1"',
    "truncate and grow": 'truncate -s 0 "$1" && truncate -s 64M "$1"',
}


@pytest.mark.parametrize("how", lanes(TRUNCATIONS))
def test_a_capture_that_another_program_truncates(how, steady, judged, tmp_path):
    report = tmp_path / "report.bin"
    with steady(report) as run:
        until(report.exists, report)
        harness.run(["sh", "-c", TRUNCATIONS[how], "sh", report])
        run.goes_on()
        judged(run, tmp_path, beside.left_in)


def trained(python, folder, output, between):
    """PyTorch's training (workloads/steady_training.py) until `between` has returned: its status and output."""
    folder.mkdir()
    env = harness.preloaded({"GPUMEM_OUTPUT": str(output)}) if output else {}
    with open(folder / "stderr", "w+") as errors:
        process = subprocess.Popen(
            harness.simulator_command([python, harness.WORKLOADS / "steady_training.py"]), cwd=folder,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
            env=harness.clean_environment({"GPUMEM_SIM_CARD": "", **env}),
        )
        try:
            assert process.stdout.readline() == "trains\n"
            between()
            output, _ = process.communicate("\n", timeout=240)
        finally:
            process.kill()
            process.wait()
        errors.seek(0)
        return process.returncode, output, errors.read().splitlines()


@pytest.mark.slow
def test_a_training_whose_capture_is_truncated(python_env, tmp_path):
    python, report = python_env("torch215"), tmp_path / "report.bin"
    without = trained(python, tmp_path / "without", None, lambda: None)
    status, output, errors = trained(
        python, tmp_path / "recorded", report,
        lambda: os.truncate(report, 0),
    )
    says = [line for line in errors if line.startswith("gpumem: ")]
    assert (status, output, [line for line in errors if line not in says]) == without
    assert status == 0 and len(says) <= 2, says
    done = harness.analyze("report", "--all", "--format", "json", report, check=False)
    assert done.returncode in (0, 1, 3) and "panicked" not in done.stderr, harness.described(done)
    if done.returncode == 0:
        live, peak = map(int, output.split())
        tensors = harness.device_of(harness.unwrapped(done.stdout))["tensor"]
        assert (tensors["live_bytes"], tensors["peak_bytes"]) == (live, peak)


def test_a_bounded_capture_that_another_program_truncates(steady, judged, tmp_path):
    report = tmp_path / "report.bin"
    with steady(report, GPUMEM_BOUNDED="16MiB") as run:
        until(report.exists, report)
        os.truncate(report, 0)
        run.goes_on()
        judged(run, tmp_path, beside.left_in)


# (c) Others write into the file.

COUNTER = 8192 + 64 + 40


def overwrite(report, chance):
    """One byte of the first device's counters and 40 others of the first 64 KiB."""
    with open(report, "r+b") as file:
        for place in (COUNTER, *(chance.randrange(64 << 10) for _ in range(40))):
            file.seek(place)
            file.write(bytes([chance.randrange(256)]))
            file.flush()


@pytest.mark.parametrize("number", RUNS)
def test_a_head_that_another_program_overwrites(number, steady, judged, tmp_path):
    report = tmp_path / "report.bin"
    with steady(report) as run:
        until(report.exists, report)
        overwrite(report, random.Random(f"{SEED} head {number}"))
        run.goes_on()
        judged(run, tmp_path, beside.left_in)


@pytest.mark.parametrize("number", CUTS)
def test_a_capture_that_is_cut_off_anywhere(number, steady, judged, tmp_path):
    report = tmp_path / "report.bin"
    chance = random.Random(f"{SEED} cut {number}")
    with steady(report) as run:
        run.goes_on(chance.randrange(100))
        until(report.exists, report)
        os.truncate(report, chance.randrange(report.stat().st_size + 1))
        run.goes_on()
        judged(run, tmp_path, beside.left_in)


# (d) A disk that its administrator freezes.


def test_a_frozen_ext4(loop, steady, judged):
    """By fsfreeze, as for a snapshot: whatever writes to it waits."""
    disk = loop("ext4", "128M")
    with steady(disk.folder / "report.bin") as run:
        disk.freeze()
        until(lambda: ("gpumem-file", "D") in run.threads(), run.threads)
        run.says("the disk does not respond")
        run.goes_on()
        assert ("gpumem-file", "D") in run.threads(), "all of this was while the recorder waited"
        disk.thaw()
        run.goes_on()
        judged(run, disk.folder)


def test_an_ext4_that_the_kernel_gives_up(loop, steady, judged):
    """Read-only from one moment on, as after damage is found."""
    disk = loop("ext4", "128M")
    with steady(disk.folder / "report.bin") as run:
        disk.abort()
        run.says("cannot write to")
        run.goes_on()
        judged(run, disk.folder)


# (e) A disk elsewhere, whose server stalls, refuses and comes back.


def test_a_server_that_stalls(fuse, steady, judged):
    with steady(fuse.folder / "report.bin") as run:
        fuse.freeze("all")
        fuse.command("held all 1")
        run.says("the disk does not respond")
        run.goes_on()
        fuse.thaw()
        run.goes_on()
        judged(run, fuse.folder)


@pytest.mark.parametrize("operations", lanes(("all", "modify")))
def test_a_server_that_stalls_until_the_program_has_ended(operations, fuse, steady, judged):
    """The program does all that it does without the recorder, and a line reports that the capture is incomplete. Its
    process ends once the disk answers again, because the kernel does not end a process while one of its threads is
    in a write (docs/ring.md)."""
    with steady(fuse.folder / "report.bin") as run:
        fuse.freeze(operations)
        fuse.command(f"held {operations} 1")
        run.goes_on()
        run.end()
        run.says("is incomplete")
        fuse.thaw()
        judged(run, fuse.folder)


def test_a_server_that_stalls_amid_a_sync(fuse, steady, judged):
    """The kernel holds pages that it is writing until the server has answered."""
    with steady(fuse.folder / "report.bin") as run:
        fuse.freeze("data,fsync")
        with disks.synced(fuse.folder):
            fuse.command("held data,fsync 1")
            run.goes_on()
            fuse.thaw()
        run.goes_on()
        judged(run, fuse.folder)


def test_a_server_that_dies(fuse, steady, judged):
    """Every request fails from then on, and the name is gone."""
    with steady(fuse.folder / "report.bin") as run:
        fuse.die()
        run.goes_on()
        judged(run, fuse.backing)


@pytest.mark.slow
def test_slow_writes(fuse, steady, judged):
    fuse.command("delay data 200")
    with steady(fuse.folder / "report.bin") as run, disks.synced(fuse.folder):
        fuse.command("wait data 5")
        run.goes_on()
        judged(run, fuse.folder)


@pytest.mark.parametrize("error", lanes(("ENOSPC", "EROFS", "EIO", "ESTALE", "EDQUOT")))
def test_writes_that_fail_for_a_while(error, fuse, steady, judged):
    """From the third write on; then the disk works again."""
    operations = "modify" if error == "EROFS" else "data"
    fuse.command(f"fail {operations} {error} from 3")
    with steady(fuse.folder / "report.bin") as run:
        run.says("cannot write to")
        run.goes_on()
        fuse.heal()
        run.goes_on()
        judged(run, fuse.folder)


@pytest.mark.parametrize("error", lanes(("EIO", "ENOSPC")))
def test_writes_that_fail_for_ever(error, fuse, steady, judged):
    fuse.command(f"fail data {error} from 2")
    with steady(fuse.folder / "report.bin") as run:
        run.says("cannot write to")
        run.goes_on()
        judged(run, fuse.folder)


@pytest.mark.parametrize("command", ("short write 1000", "fail fallocate EOPNOTSUPP"))
def test_a_disk_with_less(command, fuse, steady, judged):
    """A write may take fewer bytes than it was given; the rest follows. Many network file systems have no fallocate."""
    fuse.command(command)
    with steady(fuse.folder / "report.bin") as run:
        run.goes_on()
        _, left = judged(run, fuse.folder)
    assert [each.codes for each in left] == [(0, 0)]


def test_a_create_that_is_held(fuse, steady, judged):
    """The program's first call does not wait for the file."""
    fuse.freeze("create,open,lookup,truncate,fallocate")
    with steady(fuse.folder / "report.bin") as run:
        fuse.command("held create,open,lookup,truncate,fallocate 1")
        run.goes_on()
        fuse.thaw()
        run.goes_on()
        judged(run, fuse.folder)


@pytest.mark.parametrize("error", lanes(("EIO", "ENOSPC", "EACCES", "EROFS")))
def test_a_create_that_fails(error, fuse, steady, judged):
    fuse.command(f"fail create {error}")
    with steady(fuse.folder / "report.bin") as run:
        recorded, left = judged(run, fuse.folder)
    assert left == [] and len(recorded.says) >= 1


@pytest.mark.parametrize("how", lanes(("renamed", "replaced", "removed"), ("renamed", "replaced")))
def test_a_capture_that_loses_its_name(how, fuse, steady, without):
    report = fuse.folder / "report.bin"
    with steady(report) as run:
        until(report.exists, report)
        if how == "renamed":
            report.rename(fuse.folder / "moved.bin")
        else:
            report.unlink()
        if how == "replaced":
            report.write_bytes(b"of another program")
        run.goes_on()
        recorded = run.finish()
        beside.assert_unharmed(without, recorded)
        if how == "replaced":
            assert report.read_bytes() == b"of another program"
            report.unlink()
        left = beside.assert_told(fuse.folder, recorded)
        assert how != "renamed" or (len(left) == 1 and left[0].exact)
