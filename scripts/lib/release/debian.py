"""The Debian package: its contents and its control file."""

import gzip
import hashlib
from pathlib import PurePosixPath
from typing import Dict

from archives import File, deb

ARCHITECTURE = "amd64"
# The package folder of the distribution's Python, for all its versions.
_PACKAGES = "usr/lib/python3/dist-packages"
_COMMAND = b"""\
#!/usr/bin/python3
import sys

from gpumem.__main__ import main

sys.exit(main())
"""
_DESCRIPTION = """\
shows which lines of a program hold its GPU memory, to the byte
 The recorder is a library that is preloaded into any CUDA program on Linux. It
 records every allocation with its stack; gpumem-analyze reads the captures:
 reports, flamegraphs, timelines, causes of out of memory. A simulated GPU runs
 programs on machines without one.
"""
_COPYRIGHT = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: gpumem
Comment: The binaries contain other software. Its licences are in
 THIRD-PARTY.txt.gz beside this file.

Files: *
Copyright: 2026 The gpumem maintainers
License: MIT or Apache-2.0
 The texts are in LICENSE-MIT and LICENSE-APACHE beside this file; the Apache
 License is in /usr/share/common-licenses/Apache-2.0, too.
"""


def name_of(version: str) -> str:
    return f"gpumem_{version}-1_{ARCHITECTURE}.deb"


def package(version: str, epoch: int, wheel: Dict[str, File], program: File, manuals: Dict[str, bytes], completions: Dict[str, bytes],
            documents: Dict[str, bytes]) -> bytes:
    """The package. `wheel` has the wheel's files for Python, `documents` the files to install with the
    copyright."""
    data = {f"{_PACKAGES}/{name}": file for name, file in wheel.items() if not _of_pip(name)}
    data["usr/bin/gpumem-analyze"] = program
    for command in ("gpumem", "libgpumem"):
        data[f"usr/bin/{command}"] = File(_COMMAND, 0o755)
    for name, text in manuals.items():
        data[f"usr/share/man/man1/{name}.gz"] = File(_gzip(text))
    data.update({f"usr/share/{name}": File(text) for name, text in completions.items()})
    for name, text in documents.items():
        packed = len(text) > 4096 or name == "changelog"
        data[f"usr/share/doc/gpumem/{name}{'.gz' if packed else ''}"] = File(_gzip(text) if packed else text)
    data["usr/share/doc/gpumem/copyright"] = File(_COPYRIGHT.encode())
    sums = "".join(f"{hashlib.md5(data[name].data).hexdigest()}  {name}\n" for name in sorted(data))  # noqa: S324, what dpkg takes
    return deb({"control": File(_control(version, data).encode()), "md5sums": File(sums.encode())}, data, epoch)


def _of_pip(name: str) -> bool:
    """Whether a file is only for pip, or a licence, which is in the package's documents. Without a RECORD pip does
    not change the files, as for Debian's own packages."""
    path = PurePosixPath(name)
    info = [part for part in path.parts if part.endswith(".dist-info")]
    return bool(info) and (path.name in ("RECORD", "WHEEL") or "licenses" in path.parts)


def _control(version: str, data: Dict[str, File]) -> str:
    kibibytes = sum(-(-len(file.data) // 1024) for file in data.values())
    return (
        f"Package: gpumem\nVersion: {version}-1\nSection: devel\nPriority: optional\nArchitecture: {ARCHITECTURE}\n"
        "Maintainer: The gpumem maintainers <maintainers@gpumem.invalid>\n"
        f"Installed-Size: {kibibytes}\nDepends: libc6 (>= 2.17), libgcc-s1 | libgcc1, python3 (>= 3.8)\n"
        f"Description: {_DESCRIPTION}"
    )


def _gzip(text: bytes) -> bytes:
    return gzip.compress(text, 9, mtime=0)
