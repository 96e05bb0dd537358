"""Runs Python code in subinterpreters that allocate on the simulated GPU, several threads of them at
once and one set after the other, so that later ones get the memory of earlier ones.

Arguments: the library of subinterpreters.c, "own" or "shared" (the GIL), how many at once, how many
sets. Prints as JSON: a list of [bytes, [names of the Python functions, the newest first]] for each
size that was allocated.
"""

import ctypes
import json
import sys

LIBRARY, GIL, AT_ONCE, SETS = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
TIMES = 20

SOURCE = """
def leaf_{n}(function, size):
    return function(size)

def generator_{n}(function, size):
    yield leaf_{n}(function, size)

async def coroutine_{n}(function, size):
    return leaf_{n}(function, size)

async def numbers_{n}(function, size):
    yield await coroutine_{n}(function, size)

class Type_{n}:
    def __init__(self, function, size):
        self.value = max([size], key=lambda size: leaf_{n}(function, size))

def drive_{n}(awaitable):
    try:
        awaitable.send(None)
    except StopIteration as done:
        return done.value

wait_for_all(0)
for time in range({times}):
    leaf_{n}(allocate, {size})
    next(generator_{n}(allocate_held, {size} + 512))
    drive_{n}(coroutine_{n}(allocate, {size} + 1024))
    drive_{n}(numbers_{n}(allocate_held, {size} + 1536).__anext__())
    Type_{n}(allocate, {size} + 2048)
"""

# The functions on the stack in each way, the newest first.
WAYS = (
    ("leaf_{n}", "<module>"),
    ("leaf_{n}", "generator_{n}", "<module>"),
    ("leaf_{n}", "coroutine_{n}", "drive_{n}", "<module>"),
    ("leaf_{n}", "coroutine_{n}", "numbers_{n}", "drive_{n}", "<module>"),
    ("leaf_{n}", "Type_{n}.__init__.<locals>.<lambda>", "Type_{n}.__init__", "<module>"),
)


def main():
    library = ctypes.CDLL(LIBRARY)
    assert library.set_up() == 0
    said = []
    for first in range(0, AT_ONCE * SETS, AT_ONCE):
        numbers = ["%03d" % number for number in range(first, first + AT_ONCE)]
        sources = []
        for number in numbers:
            size = 512 * (1 + len(WAYS) * int(number))
            # Names of one length: code objects of the next set are like the last one's.
            source = SOURCE.format(n=number, size="int('%07d')" % size, times=TIMES)
            sources.append(source.encode())
            for way, names in enumerate(WAYS):
                said.append([size + 512 * way, [name.format(n=number) for name in names]])
        array = (ctypes.c_char_p * AT_ONCE)(*sources)
        assert library.run_at_once(array, AT_ONCE, int(GIL == "own")) == 1
    print(json.dumps({"times": TIMES, "said": said}))


main()
