"""File systems for tests that fail on command: `fuse_disk`, which tests/hostile-fs serves, and `loop_disk`, a real
one in a file. Each skips the test, with the reason, where it is not available, and leaves no mount behind."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Iterator

import harness
import pytest

HOSTILE_FS = harness.BUILT / "hostile-fs"
# A command that waits for requests fails after this many seconds.
SECONDS = 240


def _quietly(*command) -> None:
    subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL, capture_output=True)


class FuseDisk:
    """A disk at `folder` whose files are in `backing`."""

    def __init__(self, folder: Path, backing: Path, control: socket.socket, server: subprocess.Popen):
        self.folder, self.backing, self._server = folder, backing, server
        self._control, self._answers = control, control.makefile("r")

    def command(self, text: str) -> str:
        """Carries a command of tests/hostile-fs/src/control.rs out and returns the answer."""
        self._control.sendall(f"{text}\n".encode())
        answer = self._answers.readline().rstrip("\n")
        assert answer and not answer.startswith("error"), f"{text}: {answer or 'no answer'}"
        return answer

    def freeze(self, operations: str = "all") -> None:
        self.command(f"freeze {operations}")

    def thaw(self) -> None:
        self.command("thaw")

    def heal(self) -> None:
        """Removes all rules, freezes among them."""
        self.command("heal")

    def die(self) -> None:
        """Kills the server: current and later requests fail."""
        self._server.kill()
        self._server.wait()

    def counts(self) -> dict:
        """operation → how many requests came, have passed and are held"""
        return json.loads(self.command("counts"))


@contextlib.contextmanager
def fuse_disk(place: Path) -> Iterator[FuseDisk]:
    """A disk below the folder `place`, where everything works until a command changes that."""
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        pytest.skip(f"no FUSE here: {error}")
    if os.geteuid() != 0 and shutil.which("fusermount3") is None:
        pytest.skip("no FUSE here: mounting needs root or fusermount3")
    folder, backing, path = place / "disk", place / "behind", place / "control"
    for each in (place, folder, backing):
        each.mkdir(exist_ok=True)
    # The path of a socket has room for 107 bytes.
    here = os.path.relpath(path)
    path = here if len(here) < len(str(path)) else str(path)
    server = subprocess.Popen(
        [HOSTILE_FS, backing, folder, "--control", path, "--until-stdin-closes"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )
    control = socket.socket(socket.AF_UNIX)
    try:
        if server.stdout.readline() != "mounted\n":
            server.wait(timeout=SECONDS)
            pytest.skip(f"no FUSE here: {server.stderr.read().strip()}")
        control.settimeout(SECONDS)
        control.connect(path)
        yield FuseDisk(folder, backing, control, server)
    finally:
        # Its end answers whatever it still holds.
        control.close()
        server.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(timeout=SECONDS)
        server.kill()
        server.wait()
        server.stdout.close()
        server.stderr.close()
        # Where it could not do so itself.
        _quietly(*(["umount", "-l"] if os.geteuid() == 0 else ["fusermount3", "-uz"]), folder)


@contextlib.contextmanager
def synced(folder: Path) -> Iterator[None]:
    """Meanwhile another program repeatedly makes the disk write the changes, as the kernel does every few seconds."""
    syncing = subprocess.Popen(
        ["sh", "-c", 'while :; do sync --file-system "$1"; sleep 0.05; done', "sh", folder],
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        syncing.kill()


class LoopDisk:
    """A separate file system at `folder`."""

    def __init__(self, folder: Path):
        self.folder = folder

    def freeze(self) -> None:
        """Whatever writes to it waits from now on."""
        harness.run(["fsfreeze", "--freeze", self.folder])

    def thaw(self) -> None:
        harness.run(["fsfreeze", "--unfreeze", self.folder])

    def sync(self) -> None:
        """Writes all that is changed to the device."""
        harness.run(["sync", "--file-system", self.folder])

    def fill(self, name: str = "filler") -> None:
        """Writes a file until there is no room."""
        done = harness.run(
            ["dd", "if=/dev/zero", f"of={self.folder / name}", "bs=64k", "conv=fsync"],
            check=False,
        )
        assert "No space left on device" in done.stderr, harness.described(done)

    def abort(self) -> None:
        """What the kernel does to a file system of ext4 that it finds damaged: it is read-only from now on."""
        harness.run(["mount", "-o", "remount,abort", self.folder])


def _make(kind: str) -> list[str]:
    """The command that makes a file system, without the device."""
    if kind == "ext4":
        return ["mkfs.ext4", "-q", "-m", "0"]
    assert kind == "btrfs"
    found = subprocess.run([harness.ENVIRONMENT, "btrfs"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if found.returncode != 0:
        pytest.skip(f"mkfs.btrfs is not at hand: {found.stderr.strip()}")
    return [found.stdout.strip(), "--quiet", "--mixed", "--metadata", "single", "--data", "single"]


@contextlib.contextmanager
def loop_disk(kind: str, size: str, place: Path) -> Iterator[LoopDisk]:
    """A file system ("ext4", "btrfs") of a size ("64M") in a file below the folder `place`."""
    if os.geteuid() != 0:
        pytest.skip(f"no {kind} in a file: only root may mount one")
    if not os.path.exists("/dev/loop-control"):
        pytest.skip(f"no {kind} in a file: there are no loop devices")
    place.mkdir(exist_ok=True)
    image, folder = place / "image", place / "disk"
    folder.mkdir()
    harness.run(["truncate", "--size", size, image])
    harness.run([*_make(kind), image])
    found = harness.run(["losetup", "--find", "--show", image], check=False)
    if found.returncode != 0:
        pytest.skip(f"no {kind} in a file: {found.stderr.strip()}")
    device = found.stdout.strip()
    try:
        mounted = harness.run(["mount", "-t", kind, device, folder], check=False)
        if mounted.returncode != 0:
            pytest.skip(f"no {kind} in a file: {mounted.stderr.strip()}")
        yield LoopDisk(folder)
    finally:
        # While the disk is frozen, no other command on it can end.
        _quietly("fsfreeze", "--unfreeze", folder)
        _quietly("umount", "-l", folder)
        _quietly("losetup", "--detach", device)
