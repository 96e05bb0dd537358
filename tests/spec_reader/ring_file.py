"""Section "Ring file": how a ring that the capture does not hold is found and checked, and its queue."""

import os
import stat
import struct
import zlib
from pathlib import Path

from . import checks, head

MAGIC = b"\x89GPURNG\n"
OPERATION = b"GPUMQOP1"


def boot_id():
    text = Path("/proc/sys/kernel/random/boot_id").read_text()
    return text.strip().replace("-", "")


def find(static, owner):
    """The ring's bytes, if it is there, and whether something else is in its place."""
    if static.ring != head.IN_FILE:
        return None, False
    try:
        descriptor = os.open(static.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None, False
    except OSError:
        return None, True
    try:
        found = os.fstat(descriptor)
        may_be = (
            stat.S_ISREG(found.st_mode) and found.st_uid in (owner, os.geteuid())
            and found.st_mode & 0o077 == 0 and found.st_nlink == 1
        )
        data = Path(f"/proc/self/fd/{descriptor}").read_bytes() if may_be else b""
    finally:
        os.close(descriptor)
    is_its = may_be and fits(data, static)
    return (data, False) if is_its else (None, True)


def fits(data, static):
    if len(data) < head.LEAST or data[:8] != MAGIC:
        return False
    version, length, queue, crc = struct.unpack_from("<IIQI", data, 8)
    path = data[64 : 64 + length]
    if version != 1 or length > 1984 or crc != zlib.crc32(data[:24] + path):
        return False
    try:
        its = head.Static(data[2048:2560])
    except ValueError:
        return False
    return (
        its == static and its.facts["boot_id"] == boot_id() and any(bytes.fromhex(boot_id()))
        and len(data) == 24576 + 64 * static.slots + queue
    )


def operations(ring, static, dynamic):
    """(offset, bytes) of each operation that is not done."""
    start = 24576 + 64 * static.slots
    queue = ring[start:]
    if not dynamic.queue:
        return
    number, place, _ = dynamic.queue
    while True:
        for at in (place, 0):
            words = checks.words(queue, at, 8)
            magic, of, offset, sizes, _, _, zero, check = words
            size = sizes & 0xFFFFFFFF
            length = 64 + -(-size // 64) * 64
            if (
                at + length <= len(queue) and magic == int.from_bytes(OPERATION, "little") and of == number
                and zero == 0 and check == checks.check(static.nonce, at, words[:7])
            ):
                yield offset, queue[at + 64 : at + 64 + size]
                number, place = number + 1, at + length
                break
        else:
            return


def overlaid(own, ring, static, dynamic):
    """The capture as it is once the queue is written."""
    out = bytearray(own)
    for offset, content in operations(ring, static, dynamic):
        out.extend(bytes(max(0, offset + len(content) - len(out))))
        out[offset : offset + len(content)] = content
    return bytes(out)
