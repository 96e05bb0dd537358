"""Captures on disks that fail while a program runs: full, frozen, slow, failing, cut off or overwritten by others.
The program is not affected: same output and status as a simultaneous run without the recorder, no call of the driver
that takes 10 ms more, at most two lines on stderr, which report what happened to the recording. No figure of the
remaining capture may be silently wrong.

GPUMEM_HOSTILE_RUNS=50 overwrites the head in 50 runs, and truncates the capture of PyTorch's training in every way;
GPUMEM_HOSTILE_CUTS=200 cuts the file off in 200 runs (docs/measured/disks.md).

What breaks these tests: a store of the program's threads to a page of the file, a lock that is held across a request
to the file's disk and that a hook takes, figures that are read back from the file, and an end that waits for the
disk."""

import contextlib
import os
import random
import subprocess
import time

import beside
import disks
import harness
import pytest

RUNS = int(os.environ.get("GPUMEM_HOSTILE_RUNS", "2"))
CUTS = int(os.environ.get("GPUMEM_HOSTILE_CUTS", "2"))
SEED = int(os.environ.get("GPUMEM_HOSTILE_SEED", "1"))
CAMPAIGN = "GPUMEM_HOSTILE_RUNS" in os.environ
# Seconds for which a disk is frozen.
FROZEN = 5.2
# Nanoseconds that the first calls of the driver may take longer with the recorder, which then reads its options
# and looks at the program's libraries: 4 to 8 ms on any disk.
OPENING = 50_000_000
# Seconds between the program's last line and its end, more than without the recorder.
ENDING = 2.0


@pytest.fixture(scope="session")
def client(build_c):
    return build_c("steady.c", "-ldl", "-pthread")


@pytest.fixture
def fuse(tmp_path):
    with disks.fuse_disk(tmp_path / "fuse") as disk:
        yield disk


@pytest.fixture
def loop(tmp_path):
    """loop("ext4", "64M"): one disk a test."""
    with contextlib.ExitStack() as stack:
        yield lambda kind, size: stack.enter_context(disks.loop_disk(kind, size, tmp_path / kind))


def judged(both, folder, look=beside.assert_told):
    """Ends both runs. The program was not affected, and the captures in the folder are right or marked as wrong: on
    stderr too or, with `left_in`, by gpumem-analyze alone."""
    without, recorded = both.finish()
    beside.assert_unharmed(without, recorded)
    left = look(folder, recorded)
    assert recorded.ending - without.ending <= ENDING * 1e9, f"the end took {recorded.ending / 1e9:.1f} s"
    return recorded, left


def wait_for(path, both):
    while not path.exists():
        assert both.recorded.process.poll() is None
        time.sleep(0.002)


def test_nothing_goes_wrong(fuse, client, tmp_path):
    """The measure itself: on a disk that works the capture is exact, and no call takes longer."""
    with beside.beside(client, tmp_path / "runs", fuse.folder / "report.bin") as both:
        both.awaits(50)
        both.lives_on(0.5)
        recorded, left = judged(both, fuse.folder)
    assert [each.codes for each in left] == [(0, 0)]
    assert len(recorded.says) == 1 and beside.WROTE.match(recorded.says[0])


def test_the_measure_sees_what_a_call_waits_for(client, tmp_path):
    """A driver that takes 12 ms for an allocation, in the run with the recorder alone."""
    slow = {"GPUMEM_SIM_ALLOCATION_US": "12000"}
    with beside.beside(client, tmp_path / "runs", tmp_path / "report.bin", seconds=0.02, env=slow) as both:
        both.awaits(5)
        without, recorded = both.finish()
    with pytest.raises(AssertionError, match="a call took 1[0-9.]* ms more"):
        beside.assert_unharmed(without, recorded)


# (a) A disk that others fill up.


@pytest.mark.parametrize("kind", ("btrfs", "ext4"))
def test_a_disk_that_another_program_fills(kind, loop, client, tmp_path):
    """btrfs takes new blocks for what is written again, where ext4 has those that were reserved."""
    disk = loop(kind, "128M")
    with beside.beside(client, tmp_path / "runs", disk.folder / "report.bin") as both:
        both.awaits(20)
        disk.sync()
        disk.fill()
        disk.sync()
        both.lives_on(1)
        judged(both, disk.folder)


# (b) Others truncate the file.

TRUNCATIONS = {
    "cp": 'cp /dev/null "$1"', "redirection": ': > "$1"', "truncate 4096": 'truncate -s 4096 "$1"',
    "truncate and grow": 'truncate -s 0 "$1" && truncate -s 64M "$1"',
}


@pytest.mark.parametrize("how", TRUNCATIONS)
def test_a_capture_that_another_program_truncates(how, client, tmp_path):
    report = tmp_path / "report.bin"
    with beside.beside(client, tmp_path / "runs", report) as both:
        both.awaits(50)
        wait_for(report, both)
        harness.run(["sh", "-c", TRUNCATIONS[how], "sh", report])
        both.lives_on(0.5)
        judged(both, tmp_path, beside.left_in)


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
            output, _ = process.communicate("\n", timeout=120)
        finally:
            process.kill()
            process.wait()
        errors.seek(0)
        return process.returncode, output, errors.read().splitlines()


@pytest.mark.parametrize(
    "how", [name if name == "redirection" else pytest.param(name, marks=pytest.mark.slow) for name in TRUNCATIONS]
)
def test_a_training_whose_capture_is_truncated(how, python_env, tmp_path):
    if how != "redirection" and not CAMPAIGN:
        pytest.skip("only with GPUMEM_HOSTILE_RUNS")
    python, report = python_env("torch215"), tmp_path / "report.bin"
    without = trained(python, tmp_path / "without", None, lambda: None)
    status, output, errors = trained(
        python, tmp_path / "recorded", report,
        lambda: harness.run(["sh", "-c", TRUNCATIONS[how], "sh", report]),
    )
    says = [line for line in errors if line.startswith("gpumem: ")]
    assert (status, output, [line for line in errors if line not in says]) == without
    assert status == 0 and len(says) <= 2, says
    done = harness.analyze("summary", "--format", "json", report, check=False)
    assert done.returncode in (0, 1, 3) and "panicked" not in done.stderr, harness.described(done)
    if done.returncode == 0:
        live, peak = map(int, output.split())
        tensors = harness.device_of(harness.unwrapped(done.stdout))["tensor"]
        assert (tensors["live_bytes"], tensors["peak_bytes"]) == (live, peak)


def test_a_bounded_capture_that_another_program_truncates(client, tmp_path):
    report = tmp_path / "report.bin"
    bounded = {"GPUMEM_BOUNDED": "16MiB"}
    with beside.beside(client, tmp_path / "runs", report, env=bounded) as both:
        both.awaits(50)
        wait_for(report, both)
        os.truncate(report, 0)
        both.lives_on(0.5)
        judged(both, tmp_path, beside.left_in)


# (c) Others write into the file.

COUNTER = 8192 + 64 + 40


def overwrite(report, chance):
    """One byte of the first device's counters and 40 others of the first 64 KiB."""
    with open(report, "r+b") as file:
        for place in (COUNTER, *(chance.randrange(64 << 10) for _ in range(40))):
            file.seek(place)
            file.write(bytes([chance.randrange(256)]))
            file.flush()


@pytest.mark.parametrize("run", range(RUNS))
def test_a_head_that_another_program_overwrites(run, client, tmp_path):
    report = tmp_path / "report.bin"
    chance = random.Random(f"{SEED} head {run}")
    with beside.beside(client, tmp_path / "runs", report) as both:
        both.awaits(50)
        wait_for(report, both)
        overwrite(report, chance)
        both.lives_on(0.3)
        judged(both, tmp_path, beside.left_in)


@pytest.mark.parametrize("run", range(CUTS))
def test_a_capture_that_is_cut_off_anywhere(run, client, tmp_path):
    report = tmp_path / "report.bin"
    chance = random.Random(f"{SEED} cut {run}")
    with beside.beside(client, tmp_path / "runs", report) as both:
        both.awaits(20 + chance.randrange(100))
        wait_for(report, both)
        os.truncate(report, chance.randrange(report.stat().st_size + 1))
        both.lives_on(0.2)
        judged(both, tmp_path, beside.left_in)


# (d) A disk that its administrator freezes.


def test_a_frozen_ext4(loop, client, tmp_path):
    """By fsfreeze, as for a snapshot: whatever writes to it waits."""
    disk = loop("ext4", "128M")
    with beside.beside(client, tmp_path / "runs", disk.folder / "report.bin") as both:
        both.awaits(50)
        disk.freeze()
        both.lives_on(FROZEN)
        disk.thaw()
        both.lives_on(0.2)
        judged(both, disk.folder)


def test_an_ext4_that_the_kernel_gives_up(loop, client, tmp_path):
    """Read-only from one moment on, as after damage is found."""
    disk = loop("ext4", "128M")
    with beside.beside(client, tmp_path / "runs", disk.folder / "report.bin") as both:
        both.awaits(50)
        disk.abort()
        both.lives_on(1)
        judged(both, disk.folder)


# (e) A disk elsewhere, whose server stalls, refuses and comes back.


def test_a_server_that_stalls(fuse, client, tmp_path):
    with beside.beside(client, tmp_path / "runs", fuse.folder / "report.bin") as both:
        both.awaits(50)
        fuse.freeze("all")
        both.lives_on(FROZEN)
        fuse.thaw()
        both.lives_on(0.2)
        judged(both, fuse.folder)


@pytest.mark.parametrize("operations", ("modify", "all"))
def test_a_server_that_stalls_until_the_program_has_ended(operations, fuse, client, tmp_path):
    """The program does all that it does without the recorder, and a line reports that the capture is incomplete. Its
    process ends once the disk answers again, because the kernel does not end a process while one of its threads is
    in a write (docs/ring.md)."""
    with beside.beside(client, tmp_path / "runs", fuse.folder / "report.bin") as both:
        both.awaits(50)
        fuse.freeze(operations)
        both.lives_on(0.5)
        both.end()
        fuse.thaw()
        thawed = time.monotonic_ns()
        without, recorded = both.finish(timeout=10)
        beside.assert_unharmed(without, recorded)
        assert recorded.end + recorded.ending - thawed <= ENDING * 1e9
        assert any("is incomplete" in line for line in recorded.says), recorded.says
        beside.assert_told(fuse.folder, recorded)


def test_a_server_that_stalls_amid_a_sync(fuse, client, tmp_path):
    """The kernel holds pages that it is writing until the server has answered."""
    with beside.beside(client, tmp_path / "runs", fuse.folder / "report.bin") as both:
        both.awaits(50)
        fuse.freeze("data,fsync")
        with disks.synced(fuse.folder):
            both.lives_on(2)
            fuse.thaw()
        both.lives_on(0.2)
        judged(both, fuse.folder)


def test_a_server_that_dies(fuse, client, tmp_path):
    """Every request fails from then on, and the name is gone."""
    with beside.beside(client, tmp_path / "runs", fuse.folder / "report.bin") as both:
        both.awaits(50)
        fuse.die()
        both.lives_on(0.5)
        judged(both, fuse.backing)


def test_slow_writes(fuse, client, tmp_path):
    fuse.command("delay data 200")
    with (
        beside.beside(client, tmp_path / "runs", fuse.folder / "report.bin") as both,
        disks.synced(fuse.folder),
    ):
        both.awaits(50)
        both.lives_on(2)
        judged(both, fuse.folder)


@pytest.mark.parametrize("error", ("EIO", "ENOSPC", "ESTALE", "EDQUOT", "EROFS"))
def test_writes_that_fail_for_a_while(error, fuse, client, tmp_path):
    """From the third write on; then the disk works again."""
    fuse.command(f"fail modify {error} from 3" if error == "EROFS" else f"fail data {error} from 3")
    with beside.beside(client, tmp_path / "runs", fuse.folder / "report.bin") as both:
        both.awaits(50)
        both.lives_on(0.7)
        fuse.heal()
        both.lives_on(0.3)
        judged(both, fuse.folder)


@pytest.mark.parametrize("error", ("EIO", "ENOSPC"))
def test_writes_that_fail_for_ever(error, fuse, client, tmp_path):
    fuse.command(f"fail data {error} from 2")
    with beside.beside(client, tmp_path / "runs", fuse.folder / "report.bin") as both:
        both.awaits(50)
        both.lives_on(0.7)
        judged(both, fuse.folder)


def test_short_writes(fuse, client, tmp_path):
    """A write may take fewer bytes than it was given; the rest follows."""
    fuse.command("short write 1000")
    with beside.beside(client, tmp_path / "runs", fuse.folder / "report.bin") as both:
        both.awaits(50)
        both.lives_on(0.3)
        _, left = judged(both, fuse.folder)
    assert [each.codes for each in left] == [(0, 0)]


def test_no_fallocate(fuse, client, tmp_path):
    """Many network file systems have none."""
    fuse.command("fail fallocate EOPNOTSUPP")
    with beside.beside(client, tmp_path / "runs", fuse.folder / "report.bin") as both:
        both.awaits(50)
        both.lives_on(0.3)
        _, left = judged(both, fuse.folder)
    assert [each.codes for each in left] == [(0, 0)]


def test_a_slow_create(fuse, client, tmp_path):
    """The program's first call does not wait for the file."""
    fuse.command("delay create,open,lookup,truncate,fallocate 2000")
    with beside.beside(client, tmp_path / "runs", fuse.folder / "report.bin") as both:
        both.awaits(50)
        both.lives_on(2.5)
        without, recorded = both.finish()
        beside.assert_unharmed(without, recorded)
        more = recorded.opening - without.opening
        assert more < OPENING, f"the first calls took {more / 1e6:.0f} ms more"
        beside.assert_told(fuse.folder, recorded)


@pytest.mark.parametrize("error", ("EROFS", "ENOSPC", "EACCES", "EIO"))
def test_a_create_that_fails(error, fuse, client, tmp_path):
    fuse.command(f"fail create {error}")
    with beside.beside(client, tmp_path / "runs", fuse.folder / "report.bin") as both:
        both.awaits(50)
        recorded, left = judged(both, fuse.folder)
    assert left == [] and len(recorded.says) >= 1


@pytest.mark.parametrize("how", ("renamed", "removed", "replaced"))
def test_a_capture_that_loses_its_name(how, fuse, client, tmp_path):
    report = fuse.folder / "report.bin"
    with beside.beside(client, tmp_path / "runs", report) as both:
        both.awaits(50)
        wait_for(report, both)
        if how == "renamed":
            report.rename(fuse.folder / "moved.bin")
        else:
            report.unlink()
        if how == "replaced":
            report.write_bytes(b"of another program")
        both.lives_on(0.3)
        without, recorded = both.finish()
        beside.assert_unharmed(without, recorded)
        if how == "replaced":
            assert report.read_bytes() == b"of another program"
            report.unlink()
        left = beside.assert_told(fuse.folder, recorded)
        assert how != "renamed" or (len(left) == 1 and left[0].exact)


# The equipment itself.


def test_the_disk_obeys(fuse):
    """Delays, errors, short requests and freezes reach a program; what is held is listed."""
    path = fuse.folder / "file"
    path.write_bytes(b"12345")
    fuse.command("fail write EDQUOT for 1")
    file = os.open(path, os.O_RDWR)
    with pytest.raises(OSError, match="quota"):
        os.write(file, b"1")
    fuse.command("short write 2 for 1")
    assert os.write(file, b"abcd") == 2 and os.write(file, b"cd") == 2
    fuse.command("delay fsync 100")
    start = time.monotonic()
    os.fsync(file)
    assert time.monotonic() - start >= 0.1
    fuse.freeze("write")
    writer = subprocess.Popen(["sh", "-c", 'echo held >> "$0"', path])
    fuse.command("held write 1")
    # Of another file: the kernel has locked the pages of this one.
    (fuse.folder / "empty").touch()
    assert (fuse.folder / "empty").read_bytes() == b"" and fuse.counts()["write"]["held"] == 1
    fuse.thaw()
    assert writer.wait(timeout=30) == 0
    assert os.pread(file, 20, 0) == b"abcd5held\n"
    os.close(file)


def test_the_disk_outlives_its_clients(fuse):
    """A program that is killed while its request is held: the disk answers the others, and its own end
    frees it."""
    fuse.freeze("write")
    writer = subprocess.Popen(["sh", "-c", 'echo held > "$0"', fuse.folder / "file"])
    fuse.command("held write 1")
    writer.kill()
    assert (fuse.folder / "file").exists()
    fuse.thaw()
    writer.wait(timeout=30)
    (fuse.folder / "other").write_bytes(b"written")
    assert (fuse.backing / "other").read_bytes() == b"written"


def test_no_mount_is_left(tmp_path):
    with disks.fuse_disk(tmp_path) as disk:
        folder = disk.folder
        assert os.path.ismount(folder)
        disk.freeze("write")
        writer = subprocess.Popen(["sh", "-c", 'echo held > "$0" 2> /dev/null', folder / "file"])
        disk.command("held write 1")
    assert not os.path.ismount(folder)
    assert writer.wait(timeout=30) != 0
