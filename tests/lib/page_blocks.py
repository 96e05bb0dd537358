"""Reads the blocks in a page of `gpumem-analyze html`: a second reader of the columns that
analyzer/src/views/page/history.rs describes."""

import base64
import bisect
import itertools
import zlib
from dataclasses import dataclass
from typing import Optional


@dataclass
class Block:
    made: int
    made_ns: int
    ended: Optional[int]
    ended_ns: Optional[int]
    released: Optional[int]
    waits: bool
    size: int
    address: int
    slack: Optional[int]
    stack: Optional[int]
    category: int
    placement: int
    kind: int
    library: Optional[int]
    freed_by: Optional[int]


def numbers(data):
    value, shift = 0, 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield value
            value, shift = 0, 0


def signed(value):
    return -(value + 1) // 2 if value % 2 else value // 2


def blocks(history):
    """The blocks of one level, in the order in which they were allocated."""
    left = numbers(zlib.decompress(base64.b64decode(history["columns"])))
    take = lambda count: list(itertools.islice(left, count))  # noqa: E731
    seqs = list(itertools.accumulate(take(history["events"])))
    times = list(itertools.accumulate(map(signed, take(history["events"]))))
    n = history["blocks"]
    made = list(itertools.accumulate(take(n)))
    ended, released, size = take(n), take(n), take(n)
    address = list(itertools.accumulate(map(signed, take(n))))
    slack, stack, category, placement, kind = (take(n) for _ in range(5))
    library = [0] * n if history["level"] == "tensor" else take(n)
    freed_by = take(n)
    assert next(left, None) is None
    out = []
    for i in range(n):
        end = made[i] + ended[i] - 1 if ended[i] else None
        release = end + released[i] - 2 if released[i] > 1 else None
        out.append(
            Block(
                seqs[made[i]], times[made[i]], None if end is None else seqs[end], None if end is None else times[end],
                None if release is None else seqs[release], released[i] > 0, size[i], address[i],
                slack[i] - 1 if slack[i] else None, stack[i] - 1 if stack[i] else None, category[i], placement[i], kind[i],
                library[i] - 1 if library[i] else None,
                freed_by[i] - 1 if freed_by[i] else None,
            )
        )
    return out


def level(found):
    """A function of an event: the bytes of the blocks that were live just after it."""
    changes = [(block.made, block.size) for block in found] + [(block.ended, -block.size) for block in found if block.ended is not None]
    changes.sort()
    seqs, sums = [seq for seq, _ in changes], [0, *itertools.accumulate(size for _, size in changes)]
    return lambda seq: sums[bisect.bisect_right(seqs, seq)]


def live(found, seq):
    """Those that were live just after an event."""
    return [block for block in found if block.made <= seq and (block.ended is None or block.ended > seq)]
