"""What killed programs of tests/workloads/zoo have logged, compared with what their captures have."""

import json
import mmap
import struct

from oracle import ALLOC, FREE
from waiting import until

# The threads of such a program.
THREADS = 8
# Tensors that the training's threads log first and never free.
WEIGHTS = 2
# The C program's states are larger, its other blocks smaller.
STATE = 1 << 20
# The minimum number of events in a third of its log, after which a state is written.
THIRD = 50_000


def logged(path):
    """thread → its log, each entry what was done, where, and how many bytes."""
    if not path.exists() or path.stat().st_size == 0:
        return {}
    with open(path, "rb") as file:
        log = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    size = len(log) // THREADS
    entry = struct.Struct("<3Q")
    found = {}
    for number in range(THREADS):
        thread, entries = struct.unpack_from("<QQ", log, number * size)
        start = number * size + 16
        if thread != 0:
            found[thread] = list(entry.iter_unpack(log[start : start + entries * entry.size]))
    return found


def recorded(capture, level):
    """thread → what it allocated and released at a level, in order."""
    found = {}
    for event in capture.events:
        if event["level"] == level and event["kind"] in (ALLOC, FREE):
            found.setdefault(event["thread"], []).append((event["kind"], event["ptr"], event["bytes"]))
    return found


def assert_no_address_twice(capture, level):
    live = {}
    for event in capture.events:
        if event["level"] == level and event["kind"] == ALLOC:
            assert event["ptr"] not in live, event
            live[event["ptr"]] = event["bytes"]
        elif event["level"] == level and event["kind"] == FREE:
            assert live.pop(event["ptr"]) == event["bytes"], event


def awaits(path, calls, process):
    """Waits until the C program has logged `calls` calls."""

    def have_returned():
        assert process.poll() is None
        if not path.exists() or path.stat().st_size == 0:
            return False
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as log:
            starts = range(8, len(log), len(log) // THREADS)
            return sum(struct.unpack_from("<Q", log, start)[0] for start in starts) >= calls

    until(have_returned, f"{calls} calls that have returned")


class Held:
    """The blocks of a capture that are live at its end and at the device's peak; and of the threads' newest
    allocations and frees, level → thread → events."""

    def __init__(self, text):
        self.rows, self.blocks, self.figures, self.peak = {}, {"end": [], "peak": []}, [], None
        self.events = {}
        for line in map(json.loads, text.splitlines()):
            if "row" in line:
                self.rows[line["row"]] = line
            elif "event" in line:
                events = self.events.setdefault(line["of"], {})
                events.setdefault(line["thread"], []).append(tuple(line["event"]))
            elif "kept" in line:
                self.kept = line["kept"]
            elif "when" in line:
                self.blocks[line["when"]].append(line)
            elif "figure" in line:
                self.figures.append(line)
            elif "peak_of" in line:
                self.peak = line
            else:
                self.restored = line["restored"]
                assert line["evicted"] == [0, 0], "there is room for all of it"

    def of(self, when, level):
        """address → block"""
        blocks = [block for block in self.blocks[when] if block["level"] == level]
        found = {block["ptr"]: block for block in blocks}
        assert len(found) == len(blocks), f"an address is live twice at the {when}"
        places = sorted((pointer, block["bytes"]) for pointer, block in found.items())
        for (pointer, size), (after, _) in zip(places, places[1:]):
            assert pointer + size <= after, f"blocks overlap at the {when}"
        return found

    def assert_consistent(self, level):
        """Blocks, sums by stack and the level's own figures are kept apart; they say the same."""
        live, peak = self.of("end", level), self.of("peak", level)
        assert sum(block["bytes"] for block in live.values()) == self.rows[level]["live"]
        assert sum(block["bytes"] for block in peak.values()) == self.peak[level]
        assert all(block["seq"] <= self.peak["seq"] for block in peak.values())
        by_stack = {}
        for block in peak.values():
            figure = by_stack.setdefault(stack_of(block), [0, 0])
            figure[0] += block["bytes"]
            figure[1] += 1
        figures = {}
        for line in self.figures:
            if line["figure"] == level:
                figure = figures.setdefault(stack_of(line), [0, 0])
                figure[0] += line["bytes"]
                figure[1] += line["blocks"]
        assert by_stack == figures, "the peak's blocks and its figures by stack"


def stack_of(line):
    """Both stacks of a line, to compare them by; each that was recorded must be there."""
    assert line["native"] is not None, line
    return (tuple(line["python"] or ()), tuple(line["native"]))


def under_way(entries, have, all_kept):
    """The call that a thread had recorded, but not yet logged, or `None`; all other kept events must be the end of
    its log."""
    for more in (0, 1):
        rest = have[: len(have) - more]
        newest = entries[len(entries) - len(rest) :] if len(rest) <= len(entries) else None
        if newest == rest and (not all_kept or len(rest) == len(entries)):
            return have[-1] if more else None
    raise AssertionError(f"the log ends with {entries[-3:]}, the thread's events with {have[-3:]}")


def assert_kept(held, log, level, pairs):
    """Checks a bounded capture of a program. The program's log has every call except for its first `pairs` blocks,
    which were allocated and freed. Compares the newest events, the live blocks, the peak's blocks and all sums.
    Returns how many calls are compared, and the live blocks of each thread."""
    live, made, calls = {}, set(), []
    for thread, entries in log.items():
        more = under_way(entries, held.events.get(level, {}).get(thread, []), held.restored == 0)
        for kind, pointer, size in entries + ([more] if more else []):
            calls.append((kind, size))
            if kind == ALLOC:
                live.setdefault(thread, {})[pointer] = size
                made.add((pointer, size))
            else:
                assert live[thread].pop(pointer) == size
    expected = [pair for blocks in live.values() for pair in blocks.items()]
    blocks = held.of("end", level)
    assert sorted(expected) == sorted((pointer, block["bytes"]) for pointer, block in blocks.items())
    row, first = held.rows[level], sizes_before(pairs)
    allocated = first + [size for kind, size in calls if kind == ALLOC]
    assert (row["allocations"], row["allocated"]) == (len(allocated), sum(allocated))
    assert row["frees"] == 2 * len(first) + len(calls) - len(allocated)
    assert row["live"] == sum(size for _, size in expected) and row["peak"] == held.peak[level]
    peak = held.of("peak", level)
    if pairs == 0:
        assert {(pointer, block["bytes"]) for pointer, block in peak.items()} <= made
    held.assert_consistent(level)
    if held.restored > 0:
        assert held.kept > THIRD, "the newest events"
    return 2 * pairs + len(calls), live


def sizes_before(pairs):
    """What the C program makes first: see `before` there."""
    chance, sizes = 0, []
    for _ in range(pairs):
        chance = (chance * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        sizes.append(512 * (1 + (chance >> 33) % 1024))
    return sizes


def assert_stacks_of_states(held, live):
    """The C program's states come from one line, its activations and gradients from two others."""
    blocks = held.of("end", "driver")
    states, others = set(), set()
    for pointers in live.values():
        for pointer, size in pointers.items():
            (states if size > STATE else others).add(stack_of(blocks[pointer]))
    assert len(states) <= 1 and len(others) <= 2 and not states & others


def assert_kept_tensors(held, log):
    """Tensors that threads keep, and their weights, from long ago or just now: each is live, with its size and
    the function that made it, but for the oldest of a thread that is about to say that it has given it back;
    and at most one more on each thread."""
    blocks = held.of("end", "tensor")
    kept = set()
    for thread, entries in log.items():
        live = {}
        for kind, pointer, size in entries:
            if size and kind == ALLOC:
                live[pointer] = (size, len(live))
            elif size:
                assert live.pop(pointer)[0] == size
        names = dict.fromkeys(list(live)[:WEIGHTS], "Linear.__init__")
        missing = []
        for place, (pointer, (size, _)) in enumerate(live.items()):
            block = blocks.get(pointer, {"bytes": 0, "python": []})
            # Another thread may have got the address of a freed block.
            if (block["bytes"], (block["python"] or [])[:1]) == (size, [names.get(pointer, "keep")]):
                kept.add(pointer)
            else:
                missing.append(place)
        assert missing in ([], [WEIGHTS]), f"thread {thread}: {missing} of {len(live)}"
    others = [block for block in blocks.values() if (block["python"] or [])[:1] == ["keep"]]
    assert sum(block["ptr"] not in kept for block in others) <= THREADS
    held.assert_consistent("tensor")


def is_within(few, many):
    """Whether `few` is in `many`, in the same order."""
    rest = iter(many)
    return all(entry in rest for entry in few)
