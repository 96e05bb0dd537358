"""Sections "Static header", "Dynamic header" and "Counters"."""

import os
import struct
import zlib

from . import checks

MAGIC = b"\x89GPUMEM\n"
VERSION = 1
LEAST = 24576
COPIES = (0, 2048)
# Where the ring is.
IN_CAPTURE, IN_FILE = 1, 4


class Refused(Exception):
    """Nothing can be read: why, in one word of step 0."""

    def __init__(self, kind):
        super().__init__(kind)
        self.kind = kind


class Static:
    NAMES = ("nonce", "wall", "monotonic", "boottime", "pid", "parent_pid", "start")

    def __init__(self, raw):
        """The facts of a copy that is good; ValueError for any other."""
        version = struct.unpack_from("<I", raw, 8)[0] if len(raw) == 512 else None
        if raw[:8] != MAGIC or version != VERSION:
            raise ValueError("no copy of a version that this reads")
        (crc,) = struct.unpack_from("<I", raw, 508)
        self.slots = struct.unpack_from("<I", raw, 80)[0]
        fixed = struct.unpack_from("<IQQIIQQ", raw, 84)
        self.areas = struct.unpack_from("<QQ", raw, 128)
        self.ring, length = struct.unpack_from("<II", raw, 144)
        self.path = raw[152 : 152 + length]
        self.pages = 24576 + 64 * self.slots if self.has_ring else 24576
        possible = 64 <= self.slots <= 1 << 24 and self.slots & (self.slots - 1) == 0
        placed = 1 <= self.ring <= 4 and length <= 256 and (length > 0) == (self.ring == IN_FILE)
        laid_out = fixed == (64, 4096, 8192, 64, 4, 24576 if self.has_ring else 0, self.pages)
        if crc != zlib.crc32(raw[:508]) or not possible or not placed or not laid_out or not self.fit():
            raise ValueError("damaged")
        self.facts = {"version": version, **dict(zip(self.NAMES, struct.unpack_from("<QQQQIIQ", raw, 16)))}
        self.facts["boot_id"] = raw[64:80].hex()
        self.facts["ring_slots"] = self.slots
        self.nonce = self.facts["nonce"]

    @property
    def has_ring(self):
        return self.ring == IN_CAPTURE

    @property
    def is_bounded(self):
        return any(self.areas)

    def fit(self):
        """Whether the areas of a bounded capture are possible."""
        least = max(2 << 20, 4 * min(8 * self.slots, 1 << 20))
        return not self.is_bounded or all(least <= size < 1 << 40 for size in self.areas)

    def __eq__(self, other):
        def said(of):
            return of.facts, of.areas, of.ring, of.path

        return isinstance(other, Static) and said(self) == said(other)


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
        return good[0], None if good[1] == good[0] else 2048
    if good[1]:
        return good[1], 0
    ours = [copy for copy in copies if copy[:8] == MAGIC]
    if any(len(copy) >= 12 and struct.unpack_from("<I", copy, 8)[0] > VERSION for copy in ours):
        raise Refused("newer")
    if ours and len(data) >= LEAST:
        raise Refused("damaged")
    if not ours and not (len(data) < 8 and MAGIC.startswith(data)):
        raise Refused("foreign")
    raise Refused("too short")


class Dynamic:
    """The dynamic header. Of each fact: its three numbers, None if never written, False if damaged."""

    def __init__(self, data, nonce):
        self.nonce, self.data = nonce, data
        self.known, self.tail, self.pages_end = (
            checks.unsealed(checks.words(data, place, 1)[0], nonce) for place in (4096, 4160, 4168)
        )
        self.ending, self.drain = self.facts(4224), self.facts(4288)
        self.totals = [self.facts(4352), self.facts(4384)]
        self.counted, self.journal, self.queue = self.facts(4416), self.facts(4480), self.facts(4544)
        self.losses = [(4608 + 32 * n, self.facts(4608 + 32 * n)) for n in range(64)]
        self.ended = self.ending[1] if self.ending and self.ending[0] == 1 else None
        # Every record before this one is committed.
        self.committed = max(self.known or 0, self.ending[2] if self.ended is not None else 0)
        self.is_complete = bool(self.journal) and self.journal[2] == 1

    def facts(self, place):
        *facts, check = checks.words(self.data, place, 4)
        if not any(facts) and not check:
            return None
        return facts if checks.check(self.nonce, place, facts) == check else False

    def report(self, order):
        """Damage, and what the head says: step 4."""
        facts = (
            (self.ending, "ending", 4224), (self.drain, "drain", 4288), (self.counted, "counted", 4416),
            (self.journal, "journal", 4480),
        )
        for fact, kind, place in facts:
            if fact is False:
                order.damaged(kind, place)
        places = (("known", self.known, 4096), ("tail", self.tail, 4160), ("end of pages", self.pages_end, 4168))
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


def counters(data, nonce, order):
    """The rows that fit: device, level, five figures."""
    good = []
    for number in range(256):
        place = 8192 + 64 * number
        *figures, version, check = checks.words(data, place, 7)
        version &= 0xFFFFFFFF
        if not any(figures) and not version and not check:
            continue
        if check == checks.check(nonce, place, [*figures, version]):
            good.append([255 if number // 4 == 63 else number // 4, number % 4, *figures])
        else:
            order.damaged("counters", place)
    return good
