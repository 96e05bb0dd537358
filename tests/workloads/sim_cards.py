"""Checks of simulated cards that several processes share; `sim_cards.py NAME` runs one of them."""

import os
import signal
import subprocess
import sys

from sim_cuda import *  # noqa: F403  (a small vocabulary, all of it used)


class Other:
    """Another process on the same card, with `bytes_` bytes in its context."""

    def __init__(self, bytes_, **environment):
        self.process = subprocess.Popen(
            [sys.executable, __file__, "occupy", str(bytes_)],
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.pid = self.process.pid
        self.physical = int(self.process.stdout.readline())

    def end(self, by=None):
        """Ends it, in order or by a signal, and waits until it has."""
        if by is None:
            self.process.stdin.close()
        else:
            self.process.send_signal(by)
        assert self.process.wait() == (0 if by is None else -by)


def occupy(bytes_):
    """The other process: prints its physical bytes, and ends when its input does."""
    start()
    out("cuMemAlloc_v2", int(bytes_))
    print(now("physical"), flush=True)
    sys.stdin.read()


def neighbours():
    """What one process has, another cannot have; when it ends, by whatever, all is free again."""
    start()
    own = now("physical")
    free, total = memory_info()
    assert free == total - own
    for by in (None, signal.SIGKILL):
        other = Other(GIB)
        assert other.physical == books()["context_bytes"] + GIB
        assert memory_info() == (free - other.physical, total)
        assert now("physical") == own, "the books are this process's own"
        before = books()
        place = c_uint64(77)
        assert code("cuMemAlloc_v2", byref(place), free - other.physical + 1) == OUT_OF_MEMORY
        assert code("cuCtxCreate_v2", byref(place), 0, 9) == INVALID_DEVICE
        assert (books(), place.value) == (before, 77)
        held = out("cuMemAlloc_v2", free - other.physical)
        assert memory_info()[0] == 0
        # Managed memory can still be requested, but has no room on the card.
        managed = out("cuMemAllocManaged", MIB, 1)
        assert now("resident") == 0
        must("cuMemFree_v2", managed)
        other.end(by)
        assert memory_info()[0] == other.physical
        more = out("cuMemAlloc_v2", other.physical)
        assert memory_info()[0] == 0
        must("cuMemFree_v2", held)
        must("cuMemFree_v2", more)
        assert memory_info() == (free, total)


def crowd():
    """Processes that all take what they can at once: together they get the card and no more."""
    must("cuInit", 0)
    command = [sys.executable, __file__, "greedy"]
    crowd = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(6)
    ]
    for one in crowd:
        assert one.stdout.readline() == b"ready\n"
    for one in crowd:
        one.stdin.write(b"go\n")
        one.stdin.flush()
    taken = [int(one.stdout.readline()) for one in crowd]
    start_fails = code("cuDevicePrimaryCtxRetain", byref(c_uint64()), 0)
    assert start_fails == OUT_OF_MEMORY
    assert sum(taken) == books()["total_bytes"], taken
    for one in crowd:
        one.stdin.close()
        assert one.wait() == 0
    start()
    free, total = memory_info()
    assert total - free == now("physical") == books()["context_bytes"]


def greedy():
    """One of many processes: takes all free pages, and prints how much it has."""
    start()
    print("ready", flush=True)
    sys.stdin.readline()
    while code("cuMemAlloc_v2", byref(c_uint64()), 2 * MIB) == SUCCESS:
        pass
    print(now("physical"), flush=True)
    sys.stdin.read()


def forked():
    """A child forked before the driver starts shares the card; one forked after has no driver."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        start()
        out("cuMemAlloc_v2", 10 * MIB)
        os.write(writer, b"%d\n" % now("physical"))
        signal.pause()
    physical_of_child = int(os.read(reader, 100))
    start()
    free, total = memory_info()
    assert total - free == now("physical") + physical_of_child
    orphan = os.fork()
    if orphan == 0:
        refused = code("cuMemAlloc_v2", byref(c_uint64()), 100) == NOT_INITIALIZED
        os._exit(0 if refused else 1)
    assert os.waitpid(orphan, 0)[1] == 0
    assert memory_info() == (free, total), "the orphan's end gives nothing away"
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert memory_info()[0] == free + physical_of_child


def replaced():
    """exec: the new program has no memory of the old one, under the same process id."""
    if len(sys.argv) == 2:
        start()
        out("cuMemAlloc_v2", GIB)
        os.execv(sys.executable, [sys.executable, __file__, "replaced", "again"])
    must("cuInit", 0)
    start()
    free, total = memory_info()
    assert total - free == now("physical") == books()["context_bytes"]


def alone(expected):
    """What is free on the card before this process takes anything but a context."""
    start()
    free, total = memory_info()
    assert total - free - now("physical") == int(expected)


if __name__ == "__main__":
    globals()[sys.argv[1]](*(sys.argv[2:] if sys.argv[1] != "replaced" else []))
