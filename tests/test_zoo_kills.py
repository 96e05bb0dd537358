"""SIGKILL at a random moment of a training with eight threads: every event whose hook had returned is read back. The
programs log each call that has returned in a mapped file. The capture has the whole log, in the same order, and at
most one more call on each thread, which was in progress. A bounded capture has the newest events; of all others it
has the result: each live block with its address, size and stacks, those of the peak, and the sums.

The slow lane has the campaigns: GPUMEM_ZOO_KILLS=200 kills each program 200 times (docs/measured/zoo.md).

What breaks these tests: an event that is handed to another thread before it is in the file, a page that is published
before it is written, a slot that is freed before its page is published, a reader that stops at the first record in
progress, a page of a bounded log that is overwritten before a state that has its records is whole, or a state that
lacks an event that it lists."""

import contextlib
import json
import mmap
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import threading
import time

import harness
import pytest
import zoo
from test_interposer import ALLOC, FREE, read  # noqa: F401  (fixtures are taken by name)
from waiting import until

# How often a program is killed: amid its calls and near its beginning, or in a campaign.
CAMPAIGN = pytest.param(int(os.environ.get("GPUMEM_ZOO_KILLS", "20")), marks=pytest.mark.slow)
KILLS = (2, CAMPAIGN)
SEED = int(os.environ.get("GPUMEM_ZOO_SEED", "1"))
THREADS = 8

# How the recorder keeps events. What a bounded capture keeps is compared by `Held`.
MODES = {
    "full": zoo.LARGE_RING, "bounded": {"GPUMEM_BOUNDED": "16MiB"},
    "ring in the capture": {"GPUMEM_RING": "file", **zoo.LARGE_RING},
}
# A ring that is lost with its process.
GONE = {"memfd": {"GPUMEM_RING": "memfd", **zoo.LARGE_RING}, "removed": zoo.LARGE_RING}
# Seconds before the kill after which all must be in the file, on a machine without other work (docs/ring.md).
BEHIND = float(os.environ.get("GPUMEM_ZOO_BEHIND", "0.1"))
# Tensors that the training's threads log first and never free.
WEIGHTS = 2
# Blocks that are allocated and freed to fill the log of a bounded capture.
PAIRS = 700_000
# The C program's states are larger, its other blocks smaller.
STATE = 1 << 20
# The minimum number of events in a third of its log, after which a state is written.
THIRD = 50_000
# The line of an account whose ring is lost.
UNKNOWN = re.compile(r"events after ([\d.]+) s are missing")


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


@pytest.fixture
def killed(build_c, rings, tmp_path):
    """killed(number, mode, *arguments): zoo/killed.c with its ring in a folder that no other program looks at, in a
    folder that is removed afterwards."""

    @contextlib.contextmanager
    def start(number, mode, *arguments):
        client = build_c("zoo/killed.c", "-ldl", "-pthread")
        folder = tmp_path / str(number)
        folder.mkdir()
        process = subprocess.Popen(
            harness.simulator_command([client, "log", *map(str, arguments)]), cwd=folder, stdout=subprocess.PIPE,
            env=harness.clean_environment(harness.preloaded({"GPUMEM_RING": str(rings), **mode})),
        )
        try:
            assert process.stdout.readline() == b"ready\n"
            yield Program(process, folder)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
            shutil.rmtree(folder)

    return start


class Program:
    """A run of zoo/killed.c."""

    def __init__(self, process, folder):
        self.process, self.log, self.report = process, folder / "log", folder / "report.bin"

    def wait(self):
        """For the kill."""
        assert self.process.wait(timeout=240) == -signal.SIGKILL

    def kill(self):
        self.process.kill()
        self.wait()


@pytest.mark.parametrize("kills", KILLS)
@pytest.mark.parametrize("mode", MODES)
def test_kills_of_a_c_program(mode, kills, killed, read, held):  # noqa: F811
    """Every event of the driver's, with its address and size, exactly as logged; or the sums of old events."""
    chance = random.Random(SEED)
    calls = states = 0
    for kill in range(kills):
        # Some bounded captures have states from before the training, the first one in any case.
        pairs = chance.randrange(PAIRS, 2 * PAIRS) if mode == "bounded" and kill % 10 == 0 else 0
        with killed(kill, MODES[mode], pairs) as program:
            # A random moment, many of them in the first milliseconds, some before the first call; some after many
            # calls, the first one in any case.
            moment = chance.choice((0.0, 0.03, 0.2)) * chance.random()
            if pairs or kill % 4 == 0:
                awaits(program.log, 20_000 if kill == 0 else chance.randrange(20_000), program.process)
                moment = 0.02 * chance.random()
            threading.Timer(moment, program.process.kill).start()
            program.wait()
            log = logged(program.log)
            if not program.report.exists():
                assert not any(log.values()), "there is no capture, but calls had returned"
                continue
            # Killed before the header was whole: no hook had returned.
            if not any(log.values()):
                continue
            zoo.assert_nothing_lost(program.report)
            if mode == "bounded":
                kept = held(program.report, program.process.pid)
                compared, live = assert_kept(kept, log, "driver", pairs)
                assert_stacks_of_states(kept, live)
                calls += compared
                states += kept.restored > 0
                continue
            capture = read(program.report, whole=False)
            found = recorded(capture, "driver")
            for thread, entries in log.items():
                have = found.get(thread, [])
                assert have[: len(entries)] == entries, f"thread {thread} of kill {kill}"
                assert len(have) <= len(entries) + 1, f"thread {thread} of kill {kill}"
                calls += len(entries)
            assert_no_address_twice(capture, "driver")
    print(f"{kills} kills, {states} after a state, {calls} calls that had returned: all read back")
    assert calls > 100 * kills
    assert (states > 0) == (mode == "bounded")


def without_ring(program, read):  # noqa: F811
    """Kills a program whose ring is lost: the moment up to which its account has all events, and these."""
    program.kill()
    state = zoo.checked(program.report)
    assert (state["exit"], state["damage"], state["lost_events"]) == (3, [], 0), state
    [since] = [float(found[1]) for found in map(UNKNOWN.search, state["missing"]) if found]
    return since, recorded(read(program.report, whole=False), "driver")


@pytest.mark.parametrize("ring", GONE)
def test_the_file_follows_while_the_program_waits(ring, killed, read, rings):  # noqa: F811
    """No further call is needed for the last ones to come into the file: as in a container that ends with its
    /dev/shm, they are there after a kill."""
    with killed(0, GONE[ring], 0, 1000) as program:
        awaits(program.log, 1000 * THREADS, program.process)
        for each in rings.iterdir():
            each.unlink()
        log = logged(program.log)
        until(lambda: recorded(read(program.report, whole=False), "driver") == log, "all of the log in the file")
        assert without_ring(program, read)[1] == log


@pytest.mark.parametrize("kills", KILLS)
@pytest.mark.parametrize("ring", GONE)
def test_kills_with_the_ring_gone(ring, kills, killed, read, rings):  # noqa: F811
    """All events up to a moment are there, and the account names the moment."""
    chance = random.Random(SEED)
    calls = 0
    for kill in range(kills):
        with killed(kill, GONE[ring], 0, 60_000) as program:
            awaits(program.log, chance.randrange(20_000), program.process)
            for each in rings.iterdir():
                each.unlink()
            until(lambda: zoo.checked(program.report)["events"] > 1000, "events in the file")
            time.sleep(0.2 * chance.random())  # any moment of the rest
            _, found = without_ring(program, read)
            for thread, entries in logged(program.log).items():
                have = found.get(thread, [])
                assert have[: len(entries)] == entries[: len(have)], f"thread {thread} of kill {kill}"
                calls += min(len(have), len(entries))
    print(f"{kills} kills, {calls} calls read back")
    assert calls > 100 * kills


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("ring", GONE)
def test_the_file_is_never_long_behind(ring, killed, read, rings):  # noqa: F811
    """The best of three kills: what the account names as unknown begins at most BEHIND seconds before the kill."""
    behind = []
    for kill in range(3):
        with killed(kill, GONE[ring]) as program:
            awaits(program.log, 20_000, program.process)
            for each in rings.iterdir():
                each.unlink()
            now = time.monotonic()
            opened = struct.unpack_from("<Q", program.report.read_bytes(), 32)[0] / 1e9
            since, _ = without_ring(program, read)
            behind.append(now - opened - since)
    print(f"{ring}: {[round(1000 * each) for each in behind]} ms behind")
    assert min(behind) <= BEHIND, behind


@pytest.fixture
def held():
    """The example that prints the blocks in a replay of a capture."""

    def read(report, main):
        """`main`: the thread that did what the log does not have."""
        return Held(harness.run([harness.EXAMPLES / "held", report, str(main)]).stdout)

    return read


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


@pytest.mark.parametrize(
    "mode, kills", (("full", 1), *(pytest.param(mode, *CAMPAIGN.values, marks=pytest.mark.slow) for mode in MODES))
)
def test_kills_of_a_training(mode, kills, python_env, read, held, rings, tmp_path):  # noqa: F811
    """PyTorch, with backward on autograd's thread: each tensor that a call had allocated or freed."""
    server = subprocess.Popen(
        harness.simulator_command([python_env("torch215"), zoo.ZOO / "killed_training.py"]), cwd=tmp_path,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        env=harness.clean_environment(harness.preloaded({**zoo.QUIET, "GPUMEM_RING": str(rings), **MODES[mode]})),
    )
    chance = random.Random(SEED)
    calls = states = 0
    for kill in range(kills):
        log, report = tmp_path / f"log-{kill}", tmp_path / f"report-of-{kill}.bin"
        # Of bounded captures some have a state from before the training, the first one in any case.
        pairs = chance.randrange(PAIRS, 2 * PAIRS) if mode == "bounded" and kill % 10 == 0 else 10
        server.stdin.write(f"{log} {report} {pairs}\n")
        child = int(server.stdout.readline())
        # Not before one of them trains, or the most kills would find nothing.
        assert server.stdout.readline() == "trains\n"
        timer = threading.Timer(chance.random(), os.kill, (child, signal.SIGKILL))
        timer.start()
        status = int(server.stdout.readline())
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, status
        zoo.assert_nothing_lost(report)
        if mode == "bounded":
            kept = held(report, child)
            found = kept.events.get("tensor", {})
            assert_kept_tensors(kept, logged(log))
            row = kept.rows["tensor"]
            assert row["allocations"] >= row["frees"] >= pairs and row["peak"] >= kept.peak["tensor"]
            states += kept.restored > 0
            calls += 2 * pairs
        else:
            capture = read(report, whole=False)
            found = recorded(capture, "tensor")
            assert_no_address_twice(capture, "tensor")
            assert_no_address_twice(capture, "driver")
        # Of a bounded capture these are among the newest events.
        for thread, entries in logged(log).items():
            have = [(kind, pointer) for kind, pointer, _ in found.get(thread, [])]
            assert is_within([entry[:2] for entry in entries], have), f"thread {thread} of kill {kill}"
            calls += len(entries)
        log.unlink()
        report.unlink()
    server.stdin.close()
    assert server.wait(timeout=240) == 0
    print(f"{kills} kills, {states} after a state, {calls} calls that had returned: all read back")
    assert calls > 10 * kills
    assert (states > 0) == (mode == "bounded")
