"""The cost of a known stack, in nanoseconds of a processor: the walk of the Python frames alone, then the whole cost of
an event (walk or unwinding, hash, look-up), and a round of an empty loop of the interpreter's.

    python stack_cost.py target/release/examples/libpython_probe.so [depth]
"""

import ctypes
import sys
import time

probe = ctypes.CDLL(sys.argv[1])
depth = int(sys.argv[2]) if len(sys.argv) > 2 else 30
probe.probe_walk_cost.restype = probe.probe_take_cost.restype = ctypes.c_double


def least(measure, *arguments):
    return min(measure(*arguments) for _ in range(9))


def loop(rounds):
    start = time.thread_time_ns()
    for _ in range(rounds):
        pass
    return (time.thread_time_ns() - start) / rounds


def down(more):
    if more:
        return down(more - 1)
    probe.probe_take(0)
    print(
        "python", sys.version.split()[0],
        "depth", depth,
        "walk %.0f" % least(probe.probe_walk_cost, 10000),
        "python_stack %.0f" % least(probe.probe_take_cost, 1, 10000),
        "native_stack %.0f" % least(probe.probe_take_cost, 2, 1000),
        "mixed %.0f" % least(probe.probe_take_cost, 0, 1000),
        "loop %.1f" % least(loop, 100_000),
    )


# `<module>` and the first `down` are frames too.
down(depth - 2)
