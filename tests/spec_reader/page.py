"""Section "Pages": one page's bytes as its records."""

import struct
import zlib

import zstandard

from .checks import M

HEADER = 144
MAGIC = b"GPUMPAGE"
RAW_LIMIT = 16 << 20
RECORD_LIMIT = 65536
FREE, CANCEL = 2, 3


class Broken(Exception):
    """The page's content is not what its header says."""


class Header:
    """A whole header. `parse` gives None for any other."""

    @classmethod
    def parse(cls, raw, nonce):
        if len(raw) < HEADER or raw[:8] != MAGIC:
            return None
        size, coding, of, first, next_, events, definitions = struct.unpack_from("<IIQQQII", raw, 8)
        payload, payload_crc = struct.unpack_from("<II", raw, 64)
        columns = list(struct.iter_unpack("<II", raw[72:136]))
        (crc,) = struct.unpack_from("<I", raw, 140)
        whole = (
            crc == zlib.crc32(raw[:140])
            and (size, coding, of) == (HEADER, 1, nonce)
            and sum(stored for _, stored in columns) == payload
            and sum(raw for raw, _ in columns) <= RAW_LIMIT
            and all(stored <= raw for raw, stored in columns)
            and max(events, definitions) <= RECORD_LIMIT
            and first < next_
        )
        if not whole:
            return None
        self = cls()
        self.first, self.next, self.events, self.definitions = first, next_, events, definitions
        self.payload, self.crc, self.columns = payload, payload_crc, columns
        return self


class Column:
    """Numbers taken one after the other."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def done(self):
        return self.at == len(self.data)

    def byte(self):
        if self.done():
            raise Broken
        self.at += 1
        return self.data[self.at - 1]

    def raw(self, count):
        if count > len(self.data) - self.at:
            raise Broken
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self):
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if value > M or shift > 63:
                raise Broken
            if byte < 0x80:
                return value
            shift += 7

    def signed(self):
        coded = self.number()
        return (coded >> 1) ^ -(coded & 1)

    def shift(self):
        shift = self.byte()
        if shift > 63:
            raise Broken
        return shift


def shifted(value, shift):
    if value << shift > M:
        raise Broken
    return value << shift


def indexes(column, count, values):
    """Site or pointer numbers: a plane of low bytes, and one of high bytes if there are more than 256."""
    wide = values > 256
    if len(column) != count * (2 if wide else 1):
        raise Broken
    numbers = [column[n] | (column[count + n] << 8 if wide else 0) for n in range(count)]
    if any(number >= values for number in numbers):
        raise Broken
    return numbers


def columns(header, payload):
    at = 0
    for raw, stored in header.columns:
        part = payload[at : at + stored]
        at += stored
        if stored < raw:
            try:
                part = zstandard.ZstdDecompressor().decompress(part, max_output_size=raw)
            except zstandard.ZstdError as error:
                raise Broken from error
            if len(part) != raw:
                raise Broken
        yield part


def records(header, payload):
    """(seq, kind, payload) of each definition and (seq, fields) of each event, in order."""
    if zlib.crc32(payload) != header.crc:
        raise Broken
    parts = list(columns(header, payload))
    definitions, end, slots = [], header.first, 0
    column = Column(parts[0])
    for _ in range(header.definitions):
        seq = end + column.number()
        kind = column.byte()
        body = column.raw(column.number())
        count = 1 + -(-len(body) // 64)
        definitions.append((seq, kind, body))
        end, slots = seq + count, slots + count
    if not column.done() or end > header.next or header.next - header.first != slots + header.events:
        raise Broken
    return interleaved(header.first, list(events(header, parts)), definitions)


def interleaved(seq, events_, definitions):
    out, events_ = [], iter(events_)
    for start, kind, body in definitions:
        while seq < start:
            out.append((seq, next(events_)))
            seq += 1
        out.append((start, kind, body))
        seq = start + 1 + -(-len(body) // 64)
    for event in events_:
        out.append((seq, event))
        seq += 1
    return out


def sites(column, most):
    column, before, out = Column(column), [0] * 5, []
    limits = (16, 16, 32, 32, 32)
    while not column.done():
        if len(out) == most:
            raise Broken
        kind, level, device = column.byte(), column.byte(), column.byte()
        placement = column.byte() if kind & 128 else 0
        kind &= 127
        before = [(number + column.signed()) & M for number in before]
        if any(number >> bits for number, bits in zip(before, limits)):
            raise Broken
        out.append((kind, level, device, placement, *before))
    return out


def pointers(column, most):
    column, out, before = Column(column), [], 0
    shift = column.shift()
    while not column.done():
        if len(out) == most:
            raise Broken
        before += shifted(column.number(), shift)
        if before > M:
            raise Broken
        out.append(before)
    return out


def events(header, parts):
    """Each event: time, ptr, bytes, aux, Python stack, native stack, thread, kind, level, device, API, flags, placement,
    slack."""
    count = header.events
    known_sites, known_pointers = sites(parts[1], count), pointers(parts[3], count)
    of_site = indexes(parts[2], count, len(known_sites))
    of_pointer = indexes(parts[4], count, len(known_pointers))
    if len(parts[5]) < count:
        raise Broken
    guesses, explicit = parts[5][:count], Column(parts[5][count:])
    aux, times = Column(parts[6]), Column(parts[7])
    shift, time = times.shift(), 0
    by_site, by_pointer, by_level, slack = {}, {}, {}, {}
    for n in range(count):
        site, pointer = of_site[n], of_pointer[n]
        kind, level, device, placement, api, flags, thread, python, native = known_sites[site]
        usual = [by_site.get(site, 0), by_pointer.get(pointer, 0)]
        if kind in (FREE, CANCEL):
            usual.reverse()
        if guesses[n] > 5:
            raise Broken
        guess, other_slack = guesses[n] % 3, guesses[n] >= 3
        size = explicit.number() if guess == 2 else usual[guess]
        if other_slack:
            known = explicit.number()
            if known >> 32:
                raise Broken
            slack[site] = (known - 1) & 0xFFFFFFFF
        by_site[site] = by_pointer[pointer] = size
        by_level[level] = (by_level.get(level, 0) + aux.signed()) & M
        time = (time + times.signed()) & M
        yield [
            shifted(time, shift), known_pointers[pointer], size, by_level[level], python, native,
            thread, kind, level, device, api, flags, placement, slack.get(site, 0),
        ]
    if not (explicit.done() and aux.done() and times.done()):
        raise Broken
