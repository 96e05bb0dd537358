"""Damage for tests: captures with a few bytes changed or cut off; the same seed gives the same damage."""

from __future__ import annotations

import random

HEAD = 24576


def changed(capture: bytes, seed: int) -> bytes:
    """The capture with 1 to 8 random bytes changed. A third of the files are hit anywhere; others where
    something is: one row or fact of the head, or anything that is not zero."""
    dice = random.Random(f"change {seed}")
    out = bytearray(capture)
    count = dice.randint(1, 8)
    aim = dice.randrange(3)
    if aim == 0:
        places = [dice.randrange(len(out)) for _ in range(count)]
    elif aim == 1:
        rows = [at for at in range(0, min(HEAD, len(out)), 32) if any(out[at : at + 32])]
        row = dice.choice(rows)
        places = [row + dice.randrange(32) for _ in range(count)]
    else:
        used = [at for at, byte in enumerate(out) if byte]
        places = [dice.choice(used) for _ in range(count)]
    for place in places:
        if place < len(out):
            out[place] ^= dice.randint(1, 255)
    return bytes(out)


def cut(capture: bytes, seed: int) -> bytes:
    """The capture cut off at a random length, below its own."""
    return capture[: random.Random(f"cut {seed}").randrange(len(capture))]
