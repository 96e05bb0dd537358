"""SIGKILL at a random moment of a training with eight threads: every event whose hook had returned is read
back. The programs themselves log, in a file that is mapped, each call that has returned; the capture has all
of it, in the same order, and at most the one call more on each thread that was under way.

GPUMEM_ZOO_KILLS=200 kills each program 200 times (docs/measured/zoo.md).

What breaks these tests: an event that is handed to another thread before it is in the file, a page that is
published before it is written, a slot that is given back before its page is published, or a reader that stops
at the first record that was under way."""

import mmap
import os
import random
import signal
import struct
import subprocess
import threading

import harness
import pytest
import zoo
from test_interposer import ALLOC, FREE, dump, read  # noqa: F401  (fixtures are taken by name)

KILLS = int(os.environ.get("GPUMEM_ZOO_KILLS", "4"))
SEED = int(os.environ.get("GPUMEM_ZOO_SEED", "1"))
THREADS = 8

# How the recorder keeps events, and what it must have kept. A mode that keeps less adds its own comparison.
MODES = {"full": {}}


def logged(path, words):
    """thread → its log, each entry a tuple of so many words."""
    if not path.exists() or path.stat().st_size == 0:
        return {}
    with open(path, "rb") as file:
        log = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    size = len(log) // THREADS
    entry = struct.Struct(f"<{words}Q")
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


@pytest.mark.parametrize("mode", MODES)
def test_kills_of_a_c_program(mode, build_c, read, tmp_path):  # noqa: F811
    """Every event of the driver's, with its address and size, exactly as logged."""
    client = build_c("zoo/killed.c", "-ldl", "-pthread")
    chance = random.Random(SEED)
    calls = 0
    for kill in range(KILLS):
        folder = tmp_path / str(kill)
        folder.mkdir()
        process = subprocess.Popen(
            harness.simulator_command([client, "log"]), cwd=folder, stdout=subprocess.PIPE,
            env=harness.clean_environment(harness.preloaded(MODES[mode])),
        )
        assert process.stdout.readline() == b"ready\n"
        # A random moment, many of them in the first milliseconds, some before the first call.
        timer = threading.Timer(chance.choice((0.0, 0.03, 0.2)) * chance.random(), process.kill)
        timer.start()
        assert process.wait(timeout=60) == -signal.SIGKILL
        process.stdout.close()
        log = logged(folder / "log", 3)
        if not (folder / "report.bin").exists():
            assert not any(log.values()), "there is no capture, but calls had returned"
            continue
        # Killed before the header was whole: no hook had returned.
        if not any(log.values()):
            continue
        zoo.assert_nothing_lost(folder / "report.bin")
        capture = read(folder / "report.bin", whole=False)
        found = recorded(capture, "driver")
        for thread, entries in log.items():
            have = found.get(thread, [])
            assert have[: len(entries)] == entries, f"thread {thread} of kill {kill}"
            assert len(have) <= len(entries) + 1, f"thread {thread} of kill {kill}"
            calls += len(entries)
        assert_no_address_twice(capture, "driver")
        for name in ("log", "report.bin"):
            (folder / name).unlink()
    print(f"{KILLS} kills, {calls} calls that had returned: all read back")
    assert calls > 100 * KILLS


def is_within(few, many):
    """Whether `few` is in `many`, in the same order."""
    rest = iter(many)
    return all(entry in rest for entry in few)


@pytest.mark.parametrize("mode", MODES)
def test_kills_of_a_training(mode, python_env, read, tmp_path):  # noqa: F811
    """PyTorch, with backward on autograd's thread: each tensor that a call had made or given back."""
    server = subprocess.Popen(
        harness.simulator_command([python_env("torch215"), zoo.ZOO / "killed_training.py"]), cwd=tmp_path,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        env=harness.clean_environment(harness.preloaded({**zoo.QUIET, **MODES[mode]})),
    )
    chance = random.Random(SEED)
    calls = 0
    for kill in range(KILLS):
        log, report = tmp_path / f"log-{kill}", tmp_path / f"report-of-{kill}.bin"
        server.stdin.write(f"{log} {report}\n")
        child = int(server.stdout.readline())
        # Not before one of them trains, or the most kills would find nothing.
        assert server.stdout.readline() == "trains\n"
        timer = threading.Timer(chance.random(), os.kill, (child, signal.SIGKILL))
        timer.start()
        status = int(server.stdout.readline())
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, status
        zoo.assert_nothing_lost(report)
        capture = read(report, whole=False)
        found = recorded(capture, "tensor")
        for thread, entries in logged(log, 2).items():
            have = [(kind, pointer) for kind, pointer, _ in found.get(thread, [])]
            assert is_within(entries, have), f"thread {thread} of kill {kill}"
            calls += len(entries)
        assert_no_address_twice(capture, "tensor")
        assert_no_address_twice(capture, "driver")
        log.unlink()
        report.unlink()
    server.stdin.close()
    assert server.wait(timeout=60) == 0
    print(f"{KILLS} kills, {calls} calls that had returned: all read back")
    assert calls > 10 * KILLS
