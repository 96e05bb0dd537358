"""Sections "Static header", "Dynamic header" and "Counters"."""

import os
import struct
import zlib

from . import checks

MAGIC = b"\x89GPUMEM\n"
VERSIONS, NEWEST = (1, 3), 4
LEAST = 24576
COPIES = (0, 2048)


class Refused(Exception):
    """Nothing can be read: why, in one word of step 0."""

    def __init__(self, kind):
        super().__init__(kind)
        self.kind = kind


class Static:
    NAMES = ("nonce", "wall", "monotonic", "boottime", "pid", "parent_pid", "start")

    def __init__(self, raw):
        """The facts of a copy that is good; ValueError for any other."""
        self.version = struct.unpack_from("<I", raw, 8)[0] if len(raw) == 512 else None
        if raw[:8] != MAGIC or self.version not in VERSIONS:
            raise ValueError("no copy of a version that this reads")
        (crc,) = struct.unpack_from("<I", raw, 508)
        self.slots = struct.unpack_from("<I", raw, 80)[0]
        fixed = struct.unpack_from("<IQQIIQQ", raw, 84)
        possible = 64 <= self.slots <= 1 << 24 and self.slots & (self.slots - 1) == 0
        laid_out = fixed == (64, 4096, 8192, 64, 4, 24576, 24576 + 64 * self.slots)
        if crc != zlib.crc32(raw[:508]) or not possible or not laid_out:
            raise ValueError("damaged")
        self.facts = dict(zip(self.NAMES, struct.unpack_from("<QQQQIIQ", raw, 16)))
        self.facts["boot_id"] = raw[64:80].hex()
        self.facts["ring_slots"] = self.slots
        self.nonce = self.facts["nonce"]
        self.pages = 24576 + 64 * self.slots


def static(data):
    """The static header, and where a copy of it is damaged (None: neither)."""
    if not data:
        raise Refused("empty")
    copies, good = [data[at : at + 512] for at in COPIES], []
    for copy in copies:
        try:
            good.append(Static(copy))
        except ValueError:
            good.append(None)
    if good[0]:
        return good[0], None if good[1] and good[1].facts == good[0].facts else 2048
    if good[1]:
        return good[1], 0
    ours = [copy for copy in copies if copy[:8] == MAGIC]
    if any(len(copy) >= 12 and struct.unpack_from("<I", copy, 8)[0] > NEWEST for copy in ours):
        raise Refused("newer")
    if ours and len(data) >= LEAST:
        raise Refused("damaged")
    if not ours and not (len(data) < 8 and MAGIC.startswith(data)):
        raise Refused("foreign")
    raise Refused("too short")


class Dynamic:
    """The dynamic header. Of each fact: its three numbers, None if never written, False if damaged."""

    def __init__(self, data, nonce, version):
        self.nonce, self.data = nonce, data
        _, self.check = checks.of(version)
        self.head, self.tail, self.pages_end = (
            checks.unsealed(checks.words(data, place, 1)[0], nonce) for place in (4096, 4160, 4168)
        )
        self.defining = checks.unsealed(checks.words(data, 4416, 1)[0], nonce) or 0
        self.ending, self.drain = self.facts(4224), self.facts(4288)
        self.totals = [self.facts(4352), self.facts(4384)]
        self.losses = [(4608 + 32 * n, self.facts(4608 + 32 * n)) for n in range(64)]
        self.ended = self.ending[1] if self.ending and self.ending[0] == 1 else None
        # Every record before this one was committed at a clean exit.
        self.committed = 0
        if self.ended is not None:
            self.committed = self.ending[2] or 1 << 64

    def facts(self, place):
        *facts, check = checks.words(self.data, place, 4)
        if not any(facts) and not check:
            return None
        return facts if self.check(self.nonce, place, facts) == check else False

    def report(self, order):
        """Damage, and what the head says: step 4."""
        for fact, kind, place in ((self.ending, "ending", 4224), (self.drain, "drain", 4288)):
            if fact is False:
                order.damaged(kind, place)
        places = (("head", self.head, 4096), ("tail", self.tail, 4160), ("end of pages", self.pages_end, 4168))
        for kind, number, place in places:
            if number is None:
                order.damaged(kind, place)
        ranges, total = [], 0
        for place, loss in self.losses:
            if loss is False:
                order.damaged("loss", place)
            elif loss:
                ranges.append(loss)
                total += loss[2]
        newest = max((copy for copy in self.totals if copy), key=lambda copy: copy[2], default=[0, 0, 0])
        lost, definitions, stored = newest
        if any(copy is False or stored - (copy[2] if copy else 0) > 1 for copy in self.totals):
            order.damaged("totals", 4352)
        if lost > total or total - lost > 1:
            order.damaged("totals", 4352)
        drain = None
        if self.drain and self.drain[0]:
            errno, _, time = self.drain
            drain = f"could not write from {time / 1e9:.3f} s on: {os.strerror(errno)} (os error {errno})"
        return {
            "events_lost": max(lost, total), "definitions_lost": definitions, "loss_ranges": ranges,
            "clean_exit": self.ended is not None, "drain_error": drain,
        }


def counters(data, nonce, version, order, unseen):
    """The rows that fit (device, level, five figures), and those that died half-changed; `unseen` is how many
    events may have changed them that are not among the records."""
    good, half = [], []
    whole, changes = not order.damage, order.changes()
    _, made = checks.of(version)
    for number in range(256):
        place = 8192 + 64 * number
        *figures, version, check = checks.words(data, place, 7)
        version &= 0xFFFFFFFF
        row = [255 if number // 4 == 63 else number // 4, number % 4]
        held = version & 1
        versions = [version - 1, version + 1] if held else [version]
        if not any(figures) and not version and not check:
            continue
        if any(check == made(nonce, place, [*figures, v & 0xFFFFFFFF]) for v in versions):
            good.append(row + figures)
        elif held and (check or version == 1) and (
            not whole or (version // 2 - changes[tuple(row)]) % (1 << 31) <= unseen
        ):
            half.append(row)
        else:
            order.damaged("counters", place)
    return good, half
