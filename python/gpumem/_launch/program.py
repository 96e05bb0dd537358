"""Reads from a program's file how it is started: its loader, and the libraries it needs."""

import struct
from typing import BinaryIO, List, NamedTuple, Optional, Tuple

_LOAD, _DYNAMIC, _INTERPRETER = 1, 2, 3
_NEEDED, _NAMES = 1, 5
# Longer parts are those of no program.
_MOST = 1 << 16


class Program(NamedTuple):
    loader: str  #: Path of its loader; empty: it has none.
    needed: List[str]  #: Names of libraries.

    @property
    def is_of_musl(self) -> bool:
        return "/ld-musl-" in self.loader

    @property
    def sanitizer(self) -> Optional[str]:
        """The library of AddressSanitizer, which must be the first library."""
        return next((name for name in self.needed if is_sanitizer(name)), None)


def is_sanitizer(name: str) -> bool:
    """Whether it is AddressSanitizer's library, GCC's or Clang's."""
    return name.startswith(("libasan.so", "libclang_rt.asan"))


def of(path: str) -> Optional[Program]:
    """Reads a file. None if it is no 64-bit ELF program."""
    try:
        with open(path, "rb") as file:
            return _read(file)
    except (OSError, struct.error, ValueError):
        return None


def _read(file: BinaryIO) -> Optional[Program]:
    head = file.read(64)
    if head[:6] != b"\x7fELF\x02\x01":
        return None
    [start] = struct.unpack_from("<Q", head, 32)
    size, count = struct.unpack_from("<HH", head, 54)
    if size < 56:
        return None
    file.seek(start)
    table = file.read(min(size * count, _MOST))
    # Of each: kind, offset in the file, address, bytes in the file.
    parts = [
        (kind, offset, address, length)
        for kind, _, offset, address, _, length in (struct.unpack_from("<IIQQQQ", table, at) for at in range(0, len(table) - 55, size))
    ]  # fmt: skip

    def contents(kind: int) -> bytes:
        for of_kind, offset, _, length in parts:
            if of_kind == kind:
                file.seek(offset)
                return file.read(min(length, _MOST))
        return b""

    loader = contents(_INTERPRETER).split(b"\0")[0].decode(errors="replace")
    dynamic = contents(_DYNAMIC)
    entries: List[Tuple[int, int]] = [struct.unpack_from("<qQ", dynamic, at) for at in range(0, len(dynamic) - 15, 16)]
    names = next((value for kind, value in entries if kind == _NAMES), None)
    needed = []
    for kind, value in entries:
        if kind == _NEEDED and names is not None:
            needed.append(_text(file, parts, names + value))
    return Program(loader, needed)


def _text(file: BinaryIO, parts: List[Tuple[int, int, int, int]], address: int) -> str:
    for kind, offset, start, length in parts:
        if kind == _LOAD and start <= address < start + length:
            file.seek(offset + address - start)
            return file.read(256).split(b"\0")[0].decode(errors="replace")
    return ""
