"""Blocks of a real PyTorch (tests/data/captures): temporary ones, their sizes, the fragmentation of the pool, and their
flamegraphs. Compared with the capture's own events added up by another program, and with PyTorch's own snapshot of
its pool.

What breaks these tests: a distance counted in events of another level, a block that is counted at its free and not
at its allocation, a peak's blocks taken slightly too early or late, gaps measured beyond a segment's end, a free
block that is shown as used."""

import json
from collections import Counter, defaultdict, namedtuple

import pytest
import svg
from captures import capture, printed
from oracle import ALLOC, FREE, TENSOR, Oracle

Block = namedtuple("Block", "function bytes born time seq")
Ended = namedtuple("Ended", "block events time seq")
Recorded = namedtuple("Recorded", "report segments oracle")


@pytest.fixture(scope="module")
def recorded():
    (line,) = [line for line in printed("fragmenting").splitlines() if line.startswith("SNAPSHOT ")]
    report = capture("fragmenting")
    return Recorded(report, json.loads(line[len("SNAPSHOT ") :]), Oracle(report))


def lives(oracle):
    """(blocks that ended, blocks that did not, the peak's event, and the events of tensors)."""
    live, ended, now, peak, number = {}, [], 0, (0, 0), 0
    for event in oracle.events:
        if event.level != TENSOR or event.kind not in (ALLOC, FREE):
            continue
        number += 1
        if event.kind == ALLOC:
            live[event.ptr] = Block(oracle.function(event.py), event.bytes, number, event.time, event.seq)
            now += event.bytes
            if now > peak[0]:
                peak = (now, event.seq)
        else:
            block = live.pop(event.ptr)
            now -= block.bytes
            ended.append(Ended(block, number - block.born, event.time - block.time, event.seq))
    return ended, list(live.values()), peak[1]


@pytest.mark.parametrize("option, within", [("1", 1), ("2", 2), ("40", 40), ("ms", 0.05)])
def test_temporary_blocks_are_those_that_the_events_say(option, within, recorded, analyze_json):
    ended, alive, peak = lives(recorded.oracle)
    arguments = ("--within", option)
    wanted = [end for end in ended if end.events <= within]
    if option == "ms":
        arguments = ("--within", f"{within}ms")
        wanted = [end for end in ended if end.time <= within * 1e6]
    found = analyze_json("lines", "--of", "temporary", *arguments, recorded.report)
    expected = defaultdict(lambda: [0, 0, 0, 0])
    for end in wanted:
        of = expected[end.block.function]
        of[0] += 1
        of[1] += end.block.bytes
        of[2] = max(of[2], end.block.bytes)
        if end.block.seq <= peak < end.seq:
            of[3] += end.block.bytes
    rows = {
        row["function"]: [row["blocks"], row["bytes"], row["largest_bytes"], row["peak_bytes"]]
        for row in found["rows"]
    }
    assert rows == dict(expected)
    assert found["blocks"] == len(wanted)
    assert found["all_blocks"] == len(ended) + len(alive)
    if option == "1":
        assert found["blocks"] >= 31, "passing() and spike()"
    if option == "2":
        assert rows["spike"][3] == 300 << 20, "the spike made the peak"


@pytest.mark.parametrize("at", ("peak", "end"))
@pytest.mark.parametrize("exact", (True, False))
def test_sizes_are_those_of_the_events(at, exact, recorded, analyze_json):
    ended, alive, peak = lives(recorded.oracle)
    row_of = (lambda size: size) if exact else (lambda size: 1 << (size.bit_length() - 1))
    allocated, live = Counter(), Counter()
    for block in alive + [end.block for end in ended]:
        allocated[row_of(block.bytes)] += 1
    then = alive if at == "end" else [
        *(block for block in alive if block.seq <= peak),
        *(end.block for end in ended if end.block.seq <= peak < end.seq),
    ]
    for block in then:
        live[row_of(block.bytes)] += 1
    (found,) = analyze_json("lines", "--by", "size", "--at", at, *(["--all"] if exact else []), recorded.report)
    rows = {row["from_bytes"]: row for row in found["rows"]}
    assert {size: row["allocations"] for size, row in rows.items()} == dict(allocated)
    assert {size: row["live_blocks"] for size, row in rows.items() if row["live_blocks"]} == dict(live)
    assert found["live_bytes"] == sum(block.bytes for block in then)
    lines = analyze_json("lines", "--at", at, recorded.report)
    assert found["live_bytes"] == sum(row["bytes"] for row in lines)


def test_the_pieces_are_those_of_pytorchs_own_snapshot(recorded, analyze_json):
    (found,) = analyze_json("ledger", "--pool", "--at", "end", "--request", "5MiB", recorded.report)
    theirs, pieces = {}, []
    for segment in recorded.segments:
        address, free = segment["address"], []
        for block in segment["blocks"]:
            if block["state"] == "inactive":
                free.append((address, block["size"]))
            address += block["size"]
        theirs[segment["address"]] = (segment["total_size"], segment["allocated_size"], free)
        pieces += [size for _, size in free]
    mine = {
        row["address"]: (row["bytes"], row["live_bytes"], [(part["address"], part["bytes"]) for part in row["free"]])
        for row in found["segments"]
    }
    assert mine == theirs
    assert len(pieces) > 20, "the pool is in pieces"
    assert found["free_blocks"] == len(pieces)
    assert found["free_bytes"] == sum(pieces)
    assert found["largest_free_block_bytes"] == max(pieces)
    assert found["too_small_bytes"] == sum(size for size in pieces if size < 5 << 20)
    assert found["fragmented_percent"] == 100 * (sum(pieces) - max(pieces)) // sum(pieces)


def test_the_pool_over_time_is_what_the_events_say(recorded, analyze, analyze_json):
    (found,) = analyze_json("ledger", "--pool", recorded.report)
    live, course = 0, []
    for event in recorded.oracle.events:
        if event.level == TENSOR and event.kind in (ALLOC, FREE):
            live += event.bytes if event.kind == ALLOC else -event.bytes
            course.append((event.seq, event.aux, live))
    most = max(reserved for _, reserved, _ in course)
    first = next(row for row in course if row[1] == most)
    peak = found["reserved_peak"]
    assert (peak["seq"], peak["reserved_bytes"], peak["live_bytes"]) == first
    starts = [time["from_seq"] for time in found["times"]]
    assert len(starts) <= 32 and starts[0] == course[0][0]
    for time, start, end in zip(found["times"], starts, [*starts[1:], course[-1][0] + 1]):
        frees = [reserved - now for seq, reserved, now in course if start <= seq < end]
        assert time["free_bytes"] == max(frees)
    then = found["at_reserved_peak"]
    assert (then["reserved_bytes"], then["live_bytes"]) == first[1:]
    text = analyze("ledger", "--pool", "--at", "end", recorded.report).stdout
    maps = [line for line in text.splitlines() if line.startswith("  0x")]
    assert len(maps) == len(recorded.segments) and any("·" in line and "█" in line for line in maps)


def folded(analyze, *arguments):
    """{stack: figures} of `flamegraph --format folded`."""
    lines = analyze("flamegraph", "--format", "folded", *arguments).stdout.splitlines()
    columns = 2 if {"--from", "--diff"} & set(map(str, arguments)) else 1
    parted = (line.rsplit(" ", columns) for line in lines)
    return {stack: tuple(map(int, figures)) for stack, *figures in parted}


def test_flamegraphs_of_each_kind_are_as_wide_as_their_bytes(recorded, analyze, tmp_path):
    ended, alive, _ = lives(recorded.oracle)
    allocated = folded(analyze, "--of", "allocated", recorded.report)
    assert sum(size for (size,) in allocated.values()) == sum(
        block.bytes for block in alive + [end.block for end in ended]
    )
    temporary = folded(analyze, "--of", "temporary", "--within", "2", recorded.report)
    assert sum(size for (size,) in temporary.values()) == sum(end.block.bytes for end in ended if end.events <= 2)
    functions = folded(analyze, "--by", "function", recorded.report)
    lines = folded(analyze, recorded.report)
    assert sum(size for (size,) in functions.values()) == sum(size for (size,) in lines.values())
    assert len(functions) < len(lines) and not any("fragmenting.py:" in stack for stack in functions)
    upright, icicle = tmp_path / "upright.svg", tmp_path / "icicle.svg"
    analyze("flamegraph", "--of", "allocated", "-o", upright, recorded.report)
    analyze("flamegraph", "--of", "allocated", "--format", "icicle", "-o", icicle, recorded.report)
    for picture in (upright, icicle):
        boxes = svg.boxes(picture)
        assert boxes[0].width == sum(size for (size,) in allocated.values())
    assert upright.read_bytes() != icicle.read_bytes()


def test_differences_are_before_and_after(recorded, analyze, tmp_path):
    report = recorded.report
    peak, end = folded(analyze, report), folded(analyze, "--at", "end", report)
    expected = {
        stack: (peak.get(stack, (0,))[0], end.get(stack, (0,))[0]) for stack in peak.keys() | end.keys()
    }
    assert folded(analyze, "--from", "peak", "--at", "end", report) == expected
    same = folded(analyze, "--diff", report, report)
    assert same == {stack: (size, size) for stack, (size,) in peak.items()}
    picture = tmp_path / "difference.svg"
    analyze("flamegraph", "--from", "end", "-o", picture, report)
    boxes = svg.boxes(picture)
    assert boxes[0].width == sum(size for (size,) in peak.values()), "the widths are those after"
    assert "more than at the end" in picture.read_text()
