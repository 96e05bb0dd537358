"""Allocates where Python and C call each other in turn, repeatedly, until the interpreter runs the calls with
specialized code.

Arguments: the library of call_back.c. Prints as JSON how often it allocated, and the functions on the
way of each size, the oldest first.
"""

import ctypes
import json
import sys

import sim_cuda

TIMES = 40
LIBRARY = ctypes.CDLL(sys.argv[1])
FUNCTION = ctypes.CFUNCTYPE(ctypes.c_ulonglong, ctypes.c_uint)
LIBRARY.call_back.argtypes = [FUNCTION, ctypes.c_uint]


def through_c(function):
    """Calls `function` from C."""
    LIBRARY.call_back(FUNCTION(lambda _: function() or 0), 0)


def plain(size):
    allocate(size)


def twice(size):
    through_c(lambda: through_c(lambda: allocate(size)))


def generator(size):
    yield through_c(lambda: allocate(size))


def generates(size):
    for _ in generator(size):
        pass


async def coroutine(size):
    through_c(lambda: allocate(size))


def awaits(size):
    try:
        coroutine(size).send(None)
    except StopIteration:
        pass


class Made:
    def __init__(self, size):
        self.value = through_c(lambda: allocate(size))


def makes(size):
    Made(size)


def sorts(size):
    sorted([size], key=lambda size: through_c(lambda: allocate(size)))


def allocate(size):
    address = ctypes.c_uint64()
    sim_cuda.must("cuMemAlloc_v2", ctypes.byref(address), size)


C = ["through_c", "call_back", "<lambda>", "<lambda>"]
# From C's `call_back`, the lambda of `through_c` and the function given to it.
WAYS = {
    plain: ["plain"],
    twice: ["twice", *C, *C],
    generates: ["generates", "generator", *C],
    awaits: ["awaits", "coroutine", *C],
    makes: ["makes", "__init__", *C],
    sorts: ["sorts", "<lambda>", *C],
}


def main():
    context = ctypes.c_void_p()
    sim_cuda.must("cuInit", 0)
    sim_cuda.must("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    sim_cuda.must("cuCtxSetCurrent", context)
    for _ in range(TIMES):
        for number, way in enumerate(WAYS):
            way(4096 * (number + 1))
    expected = [
        [4096 * (number + 1) * TIMES, ["main", *names, "allocate"]]
        for number, names in enumerate(WAYS.values())
    ]
    print(json.dumps(expected))


main()
