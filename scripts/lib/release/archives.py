"""Reproducible archives: a tar.gz, and a Debian package (deb(5)) without dpkg."""

import gzip
import io
import lzma
import tarfile
from pathlib import Path
from typing import Dict, NamedTuple


class File(NamedTuple):
    """A file of an archive."""

    data: bytes
    mode: int = 0o644


def tar(files: Dict[str, File], epoch: int, prefix: str = "") -> bytes:
    """An uncompressed archive owned by root: each file below `prefix`, with its parent folders, sorted by
    name."""
    out = io.BytesIO()
    folders = {f"{prefix}{parent}" for name in files for parent in map(str, Path(name).parents) if parent != "."}
    if prefix:
        folders.add(prefix.rstrip("/"))
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name in sorted(folders | {f"{prefix}{name}" for name in files}):
            item = tarfile.TarInfo(name)
            item.mtime, item.uname, item.gname = epoch, "root", "root"
            if name in folders:
                item.type, item.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(item)
            else:
                file = files[name[len(prefix) :]]
                item.size, item.mode = len(file.data), file.mode
                archive.addfile(item, io.BytesIO(file.data))
    return out.getvalue()


def tar_gz(files: Dict[str, File], epoch: int, prefix: str) -> bytes:
    return gzip.compress(tar(files, epoch, prefix), 9, mtime=epoch)


def deb(control: Dict[str, File], data: Dict[str, File], epoch: int) -> bytes:
    """A binary package: `debian-binary`, control.tar.xz, data.tar.xz, in an archive of ar(5)."""
    members = (
        ("debian-binary", b"2.0\n"),
        ("control.tar.xz", lzma.compress(tar(control, epoch, "./"), preset=6)),
        ("data.tar.xz", lzma.compress(tar(data, epoch, "./"), preset=6)),
    )
    out = b"!<arch>\n"
    for name, content in members:
        out += f"{name:<16}{epoch:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode()
        out += content + (b"\n" if len(content) % 2 else b"")
    return out
