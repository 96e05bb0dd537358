"""The disks on which test_hostile_disks.py has its captures (tests/hostile-fs): they fail as a test requires.

What breaks these tests: a request that passes although it should be held or fail, one that is held permanently, and a
mount that is left."""

import os
import subprocess

import disks
import pytest
from test_hostile_disks import fuse  # noqa: F401  (fixtures are taken by name)


def test_the_disk_obeys(fuse):  # noqa: F811
    """Errors, short requests, delays and freezes reach a program; what is held is listed."""
    path = fuse.folder / "file"
    path.write_bytes(b"12345")
    fuse.command("fail write EDQUOT for 1")
    file = os.open(path, os.O_RDWR)
    with pytest.raises(OSError, match="quota"):
        os.write(file, b"1")
    fuse.command("short write 2 for 1")
    assert os.write(file, b"abcd") == 2 and os.write(file, b"cd") == 2
    fuse.command("delay fsync 3600000")
    syncing = subprocess.Popen(["sync", path])
    fuse.command("wait fsync 1")
    assert fuse.counts()["fsync"]["passed"] == 0 and syncing.poll() is None
    fuse.heal()
    assert syncing.wait(timeout=240) == 0 and fuse.counts()["fsync"]["passed"] == 1
    fuse.freeze("write")
    writer = subprocess.Popen(["sh", "-c", 'echo held >> "$0"', path])
    fuse.command("held write 1")
    # Of another file: the kernel has locked the pages of this one.
    (fuse.folder / "empty").touch()
    assert (fuse.folder / "empty").read_bytes() == b"" and fuse.counts()["write"]["held"] == 1
    fuse.thaw()
    assert writer.wait(timeout=240) == 0
    assert os.pread(file, 20, 0) == b"abcd5held\n"
    os.close(file)


def test_the_disk_outlives_its_clients(fuse):  # noqa: F811
    """A program that is killed while its request is held: the disk answers the others, and its own end
    frees it."""
    fuse.freeze("write")
    writer = subprocess.Popen(["sh", "-c", 'echo held > "$0"', fuse.folder / "file"])
    fuse.command("held write 1")
    writer.kill()
    assert (fuse.folder / "file").exists()
    fuse.thaw()
    writer.wait(timeout=240)
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
    assert writer.wait(timeout=240) != 0
