"""Section "Checks": what hooks write is checked by, and sealed numbers."""

import struct

M = (1 << 64) - 1
L = 0x9216D5D98979FB1B
# Of versions 1 and 2.
K = [
    0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89,
    0x452821E638D01377, 0xBE5466CF34E90C6C, 0xC0AC29B7C97C50DD, 0x3F84D5B5B5470917,
]
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


def block(h, w):
    return fold((sum(fold(w[i] ^ K[i] ^ h, w[i + 1] ^ K[i + 1]) for i in (0, 2, 4, 6)) + h) & M, L)


def tag(seq, nonce):
    return (fold(seq ^ nonce, L) & 0xFFFFFFFF) | 1


def commit(seq, nonce, slots):
    (_, *first), *others = slots
    return crc32c([nonce, seq, *first, *(word for slot in others for word in slot)]) << 32 | tag(seq, nonce)


def check(nonce, place, words):
    return 1 << 32 | crc32c([nonce, place, *words])


def folded_commit(seq, nonce, slots):
    h = block(nonce, [seq] + slots[0][1:])
    for s in slots[1:]:
        h = block(h, s)
    return (h >> 32 << 32) | tag(seq, nonce)


def folded_check(nonce, place, words):
    return block(nonce, [place] + words + [0] * (7 - len(words)))


def of(version):
    """`commit` and `check` of a version."""
    return (commit, check) if version > 2 else (folded_commit, folded_check)


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
