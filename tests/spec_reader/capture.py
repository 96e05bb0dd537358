"""Section "What a reader does", from step 0 to step 4, of a file that nobody writes any more."""

import os
import struct
import zlib

from . import head, page, ring_file
from .head import Refused
from .order import Order
from .ring import Image, Ring

__all__ = ["Refused", "read"]

MARK = 64
OPENING, CLOSING = b"GPUMBAKE", b"GPUMBEND"


class Capture:
    """The content of a capture."""

    def __init__(self, facts, rows, of, order, account):
        self.facts, self.rows, self.of, self.order, self.account = facts, rows, of, order, account

    def lines(self):
        """As JSON: the header, embedded names, records, counters and the account."""
        yield self.facts
        yield from self.order.symbols
        yield from self.order.records
        yield {"counters": self.rows, "of": self.of}
        yield self.account


def read(path) -> Capture:
    with open(path, "rb") as file:
        data, owner = file.read(), os.fstat(file.fileno()).st_uid
    static, bad_copy = head.static(data)
    order = Order()
    if bad_copy is not None:
        order.damaged("header copy", bad_copy)
    embedded = closing(data, static.nonce)
    own = data if embedded is None else data[: embedded[0]]
    if len(own) < head.LEAST:
        raise Refused("too short")
    if static.is_bounded:
        raise NotImplementedError("bounded captures")
    if embedded is not None:
        names(data, static.nonce, embedded, order)
    dynamic = head.Dynamic(own, static.nonce)
    ring, state = None, "not needed"
    if not static.has_ring and not dynamic.is_complete:
        since = dynamic.journal[0] if dynamic.journal else 0
        # Names are embedded in captures of programs that have ended.
        ring, refused = ring_file.find(static, owner) if embedded is None else (None, False)
        state = ["refused" if refused else "gone", since]
    of_head = own
    if ring is not None:
        dynamic, state, of_head = head.Dynamic(ring, static.nonce), "read", ring
        own = ring_file.overlaid(own, ring, static, dynamic)
    journal_behind = (
        not static.has_ring and dynamic.pages_end is not None
        and not (dynamic.journal and dynamic.journal[1] == 0)
    )
    end = pages(own, static, dynamic, order, not journal_behind)
    if embedded is None and not journal_behind:
        cut_off(own, static.nonce, end, order)
    image = image_of(own, ring, static, dynamic)
    Ring(image, static.nonce).read(order, dynamic)
    rows = head.counters(of_head, static.nonce, order)
    account = dynamic.report(order) | {
        "events": sum(record[0] == "event" for record in order.records),
        "definitions": sum(record[0] != "event" for record in order.records),
        "pages": order.pages, "symbols": len(order.symbols), "in_flight": order.in_flight,
        "ring": state, "damage": order.damage,
    }
    facts = {**static.facts, "ended": dynamic.ended}
    of = dynamic.counted[0] if dynamic.counted else None
    return Capture(facts, rows, of, order, account)


def image_of(own, ring, static, dynamic):
    """Step 3: the ring, or what the capture has of it."""
    if static.has_ring or ring is not None:
        return Image(own if ring is None else ring, 24576, static.slots)
    if dynamic.journal and dynamic.journal[1]:
        limit = None if dynamic.is_complete else dynamic.known or 0
        return Image(own, dynamic.journal[1], static.slots, limit)
    return Image(b"", 24576, static.slots, dynamic.known or 0)


def pages(data, static, dynamic, order, past):
    """Step 2. Returns where the pages end. `past`: also what lies behind the end of pages is looked at."""
    published = dynamic.pages_end or 0
    at, last = static.pages, static.pages
    while past or at < published:
        must = at < published
        header = page.Header.parse(data[at : at + page.HEADER], static.nonce)
        records = content(data, at, header)
        if records is not None:
            last = at
            give(order, header, records, at)
            at += page.HEADER + header.payload
            continue
        if must and header:
            order.bad("page", at)
            at += page.HEADER + header.payload
            continue
        following = search(data, at + 1, static.nonce)
        if must or following is not None:
            order.bad("page", at)
        if following is not None:
            at = following
        elif must:
            at = published
        else:
            break
    if dynamic.pages_end is not None and dynamic.pages_end < at and dynamic.pages_end != last:
        order.damaged("past end of pages", 4168)
    return at


def content(data, at, header):
    """The records of the page with that header; None: it is not whole."""
    if header is None:
        return None
    payload = data[at + page.HEADER : at + page.HEADER + header.payload]
    if len(payload) < header.payload:
        return None
    try:
        return page.records(header, payload)
    except page.Broken:
        return None


def give(order, header, records, at):
    if header.first < order.expected:
        order.damaged("repeated page", at)
        return
    order.pages += 1
    order.good(header.first, at)
    for seq, *rest in records:
        if len(rest) == 1:
            order.event(seq, rest[0])
        else:
            order.definition(seq, rest[0], rest[1], at)


def search(data, start, nonce):
    while (start := data.find(page.MAGIC, start)) >= 0:
        if page.Header.parse(data[start : start + page.HEADER], nonce):
            return start
        start += 1
    return None


def mark(magic, nonce, words):
    raw = magic + struct.pack("<IIQQQQ", MARK, 1, nonce, *words) + bytes(12)
    return raw + struct.pack("<I", zlib.crc32(raw))


def closing(data, nonce):
    """L, the closing mark's offset and the count of names, if the file ends with such a mark."""
    at = len(data) - MARK
    if at < 0:
        return None
    start, end, count = struct.unpack_from("<QQQ", data, at + 24)
    fits = data[at:] == mark(CLOSING, nonce, (start, end, count)) and end == at
    return (start, end, count) if fits and head.LEAST <= start <= at - MARK else None


def names(data, nonce, embedded, order):
    """Step 1: the embedded part."""
    start, end, _ = embedded
    if data[start : start + MARK] != mark(OPENING, nonce, (start, 0, 0)):
        order.damaged("names", start)
    at = start + MARK
    while at < end:
        header = page.Header.parse(data[at : at + page.HEADER], nonce ^ ((1 << 64) - 1))
        if header is None:
            order.damaged("names", at)
            return
        records = content(data, at, header)
        if records is None:
            order.damaged("names", at)
        else:
            for _, *rest in records:
                if rest[0] == 142:
                    order.symbol(rest[1], at)
        at += page.HEADER + header.payload


def cut_off(data, nonce, at, order):
    """An opening mark, or the first bytes of one at the file's end, that no closing one follows."""
    while (at := data.find(OPENING, at)) >= 0:
        there = data[at : at + MARK]
        if mark(OPENING, nonce, (at, 0, 0)).startswith(there):
            order.damaged("end of names", at)
            return
        at += 1
