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
from kept import THREADS, Held, assert_kept, assert_kept_tensors, assert_no_address_twice, assert_stacks_of_states, awaits, is_within, logged, recorded
from lanes import slow
from test_interposer import read  # noqa: F401  (fixtures are taken by name)
from waiting import until

# How often a program is killed: amid its calls and near its beginning, or in a campaign.
CAMPAIGN = pytest.param(int(os.environ.get("GPUMEM_ZOO_KILLS", "20")), marks=pytest.mark.slow)
KILLS = (2, CAMPAIGN)
SEED = int(os.environ.get("GPUMEM_ZOO_SEED", "1"))

# How the recorder keeps events. What a bounded capture keeps is compared by `Held`.
MODES = {
    "full": zoo.LARGE_RING, "bounded": {"GPUMEM_BOUNDED": "16MiB"},
    "ring in the capture": {"GPUMEM_RING": "file", **zoo.LARGE_RING},
}
# A ring that is lost with its process.
GONE = {"memfd": {"GPUMEM_RING": "memfd", **zoo.LARGE_RING}, "removed": zoo.LARGE_RING}
# Seconds before the kill after which all must be in the file, on a machine without other work (docs/ring.md).
BEHIND = float(os.environ.get("GPUMEM_ZOO_BEHIND", "0.1"))
# Blocks that are allocated and freed to fill the log of a bounded capture.
PAIRS = 700_000
# The line of an account whose ring is lost.
UNKNOWN = re.compile(r"events after ([\d.]+) s are missing")


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
@pytest.mark.parametrize("ring", [*slow("memfd"), "removed"])
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
