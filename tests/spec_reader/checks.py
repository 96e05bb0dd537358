"""Section "Checks": what hooks write is checked by, and sealed numbers."""

import struct

M = (1 << 64) - 1
L = 0x9216D5D98979FB1B
TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    TABLE.append(byte)


def crc32c(words):
    crc = 0xFFFFFFFF
    for byte in struct.pack(f"<{len(words)}Q", *words):
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def fold(a, b):
    p = a * b
    return (p & M) ^ (p >> 64)


def tag(seq, nonce):
    return (fold(seq ^ nonce, L) & 0xFFFFFFFF) | 1


def commit(seq, nonce, slots):
    (_, *first), *others = slots
    return crc32c([nonce, seq, *first, *(word for slot in others for word in slot)]) << 32 | tag(seq, nonce)


def check(nonce, place, words):
    return 1 << 32 | crc32c([nonce, place, *words])


def seal(value, nonce):
    return value | ((value ^ nonce) * 0xD1310BA698DFB5AD & M) >> 48 << 48


def unsealed(word, nonce):
    """The number of a sealed word; None if its check does not fit."""
    value = word & ((1 << 48) - 1)
    return value if seal(value, nonce) == word else None


def words(data, offset, count):
    """`count` u64 at `offset`, zeros past the end."""
    bytes_ = data[offset : offset + 8 * count].ljust(8 * count, b"\0")
    return list(struct.unpack(f"<{count}Q", bytes_))
