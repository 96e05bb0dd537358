"""Reads the head of a capture by the byte tables of capture/SPEC.md, without gpumem's reader, so that tests can
change a version."""

from __future__ import annotations

import struct

MAGIC = b"\x89GPUMEM\n"
HEADER_COPIES = (0, 2048)
VERSION_OFFSET = 8


def with_version(capture: bytes, version: int) -> bytes:
    """The capture with another format version in both copies of its header."""
    changed = bytearray(capture)
    for copy in HEADER_COPIES:
        assert changed[copy : copy + 8] == MAGIC
        struct.pack_into("<I", changed, copy + VERSION_OFFSET, version)
    return bytes(changed)
