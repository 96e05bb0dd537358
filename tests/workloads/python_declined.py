"""Runs in an interpreter whose frames cannot be read: takes stacks in several threads at once.

Arguments: the probe library, the end of the line that must state the reason. Python 3.6 must run it.
"""

import ctypes
import sys
import threading

LIBRARY, WHY = sys.argv[1:3]
probe = ctypes.CDLL(LIBRARY)
probe.probe_take.restype = ctypes.c_uint64
failed = []


def python_stacks():
    return [probe.probe_take(1) for _ in range(500)]


def work():
    class Made:
        def __init__(self):
            self.taken = python_stacks()

    def generator():
        yield python_stacks()

    for _ in range(10):
        both = probe.probe_take(0)
        if any(Made().taken) or any(next(generator())) or not both >> 32 or both & 0xFFFFFFFF:
            failed.append(both)


threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failed, failed

size = probe.probe_definitions(None, 0)
buffer = ctypes.create_string_buffer(size)
probe.probe_definitions(buffer, size)
line = "no Python stacks are recorded: CPython %d.%d.%d " % sys.version_info[:3] + WHY
assert buffer.raw.count(line.encode()) == buffer.raw.count(b"no Python stacks are recorded") == 1
