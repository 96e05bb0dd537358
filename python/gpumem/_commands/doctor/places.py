"""The locations of captures, their rings and temporary files, and their free space."""

import errno
import os
import re
import tempfile
from typing import Iterator, List, NamedTuple, Optional

from ..._text import sizes
from .check import ERROR, OK, WARNING, Check, Machine

# The default of GPUMEM_RING_SLOTS, and the bytes of a slot.
_SLOTS, _SLOT = 65536, 64
# The capture of a training run with a million events is about 1 MiB (docs/measured/bench.md), so this is enough for the
# longest runs.
_PLENTY = 256 << 20

_NETWORK = {
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "ceph", "glusterfs", "afs", "9p", "virtiofs", "pvfs2", "orangefs",
    "wekafs", "panfs", "drvfs",
}  # fmt: skip
_MEMORY = {"tmpfs", "ramfs"}
_LAYERED = {"overlay", "aufs"}
_NOT_FOR_RINGS = {"btrfs", "zfs"} | _NETWORK


class Mount(NamedTuple):
    """The mount point and kind of a file system."""

    place: str
    kind: str


def mounts(machine: Machine) -> List[Mount]:
    """The mounts in /proc/self/mountinfo; a later line hides an earlier one at the same path."""
    found = []
    for line in machine.read("/proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        if right and len(left.split()) > 4:
            place = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), left.split()[4])
            found.append(Mount(place, right.split()[0]))
    return found


def mount_of(path: str, machine: Machine) -> Optional[Mount]:
    """The mount of a path."""
    path = os.path.realpath(path)
    best = None
    for mount in mounts(machine):
        inside = mount.place == "/" or path == mount.place or path.startswith(mount.place + "/")
        if inside and (best is None or len(mount.place) >= len(best.place)):
            best = mount
    return best


def described(kind: str) -> str:
    """The name of a kind of file system, with an explanation if it matters."""
    if kind in _NETWORK:
        return f"{kind}, a network file system"
    if kind.startswith("fuse"):
        return f"{kind}, a FUSE file system"
    if kind in _MEMORY:
        return f"{kind}, in memory"
    if kind in _LAYERED:
        return f"{kind}, a container's layer"
    return kind


def checks(machine: Machine) -> Iterator[Check]:
    yield output(machine)
    yield ring(machine)
    yield temporary(machine)


def refused(folder: str) -> Optional[OSError]:
    """The error of creating a file with one page in a folder; None if it works. The file is removed."""
    try:
        handle, name = tempfile.mkstemp(prefix=".gpumem-doctor.", dir=folder)
    except OSError as error:
        return error
    try:
        os.write(handle, bytes(4096))
        os.fsync(handle)
    except OSError as error:
        return error
    finally:
        os.close(handle)
        os.unlink(name)
    return None


def free(folder: str) -> int:
    """Bytes that this user can still write to the folder."""
    room = os.statvfs(folder)
    return room.f_bavail * room.f_frsize


def output(machine: Machine) -> Check:
    """The folder of the capture: from GPUMEM_OUTPUT, or the current one."""
    named = machine.env.get("GPUMEM_OUTPUT") or "report.bin"
    # The process id, the rank and the host are parts of names; in folder names they are not known yet.
    folder = os.path.dirname(os.path.abspath(named))
    if "%" in os.path.dirname(named):
        return Check("output", WARNING, f"{named}: its folder depends on the process", "Make the folders before the program starts.")
    if not os.path.isdir(folder):
        return Check("output", ERROR, f"{folder}: no such folder", "Make it, or name another in GPUMEM_OUTPUT or gpumem run -o.")
    error = refused(folder)
    mount = mount_of(folder, machine)
    kind = f" ({described(mount.kind)})" if mount else ""
    if error is not None:
        return Check("output", ERROR, f"{folder}{kind}: {error.strerror}", _instead(error))
    room = free(folder)
    found = f"{os.path.join(folder, os.path.basename(named))}{kind}, {sizes.text(room)} free"
    if room < _PLENTY:
        return Check("output", WARNING, found, "Free some space, or record with GPUMEM_BOUNDED=64MiB, which limits the capture's size.")
    if mount and mount.kind in _MEMORY:
        return Check("output", WARNING, found, "The capture is lost when the machine restarts: use a folder on a disk.")
    if mount and mount.kind in _LAYERED:
        return Check("output", WARNING, found, "The capture is lost with the container: use a folder on a volume.")
    if machine.env.get("GPUMEM_RING") == "file" and mount and (mount.kind in _NOT_FOR_RINGS or mount.kind.startswith("fuse")):
        advice = "GPUMEM_RING=file needs a local disk that does not copy on writing: unset it (docs/ring.md)."
        return Check("output", WARNING, found, advice)
    return Check("output", OK, found)


def _instead(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "Free some space, or name another folder in GPUMEM_OUTPUT or gpumem run -o."
    return "Name a folder that you can write to in GPUMEM_OUTPUT or gpumem run -o."


def ring(machine: Machine) -> Check:
    """The location of events that wait to be written: /dev/shm, unless GPUMEM_RING overrides it."""
    chosen = machine.env.get("GPUMEM_RING") or "auto"
    if chosen in ("memfd", "file"):
        return Check("ring", OK, f"GPUMEM_RING={chosen}: /dev/shm is not used")
    folder = "/dev/shm" if chosen == "auto" else chosen
    there = machine.path(folder) if chosen == "auto" else folder
    slots = machine.env.get("GPUMEM_RING_SLOTS", "")
    needs = (int(slots) if slots.isdecimal() else _SLOTS) * _SLOT
    less = "A kill then loses up to 50 ms of events; under gpumem run, nothing (docs/ring.md)."
    if not os.path.isdir(there):
        return Check("ring", WARNING, f"{folder}: no such folder", f"Mount tmpfs there. {less}")
    error = refused(there)
    if error is not None:
        return Check("ring", WARNING, f"{folder}: {error.strerror}", f"Make room there, or mount it writable. {less}")
    mount = mount_of(there, machine)
    if mount and mount.kind not in _MEMORY:
        return Check("ring", WARNING, f"{folder} is {described(mount.kind)}, not tmpfs", f"Mount tmpfs there. {less}")
    room = free(there)
    found = f"{folder}, {sizes.text(room)} free; each process needs {sizes.text(needs)}"
    if room < needs:
        return Check("ring", WARNING, found, f"Free some space, or in Docker --shm-size=256m. {less}")
    return Check("ring", OK, found)


def temporary(machine: Machine) -> Check:
    """`gpumem run` keeps its list of captures and a socket there while the program runs."""
    try:
        folder = tempfile.gettempdir()
    except OSError as error:
        return Check("temporary", ERROR, f"no folder for temporary files: {error.strerror}", "Name one that can be written to in TMPDIR.")
    refusal = refused(folder)
    if refusal is not None:
        return Check("temporary", ERROR, f"{folder}: {refusal.strerror}", "Free some space, or name another folder in TMPDIR.")
    return Check("temporary", OK, f"{folder}, {sizes.text(free(folder))} free")
