"""Native stacks of an interpreter: recursion, generators, asyncio, exceptions through native frames,
threads that end, and functions that the interpreter is called back through. `here` takes a stack."""

import asyncio
import ctypes
import functools
import json
import re
import sys
import threading

here = ctypes.CDLL(None).unwind_check_here
here.restype = None
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 30


class Item:
    """Whose every operation is another way through the interpreter."""

    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        here()
        return self.value < other.value

    def __add__(self, other):
        here()
        return Item(self.value + other.value)

    def __hash__(self):
        here()
        return hash(self.value)

    def __eq__(self, other):
        here()
        return self.value == other.value

    def __getattr__(self, name):
        here()
        raise AttributeError(name)

    def __del__(self):
        here()


def recurse(depth):
    if depth == 0:
        here()
        return 0
    if depth % 3 == 0:
        return max(map(recurse, [depth - 1]))
    if depth % 5 == 0:
        return functools.reduce(lambda _, d: recurse(d), [0, depth - 1])
    return recurse(depth - 1)


def walk(depth):
    here()
    if depth:
        yield from walk(depth - 1)
        yield depth
    here()


async def task(depth):
    here()
    if depth:
        await asyncio.gather(task(depth - 1), asyncio.sleep(0))
    here()
    return depth


def throw(depth):
    try:
        if depth == 0:
            raise ValueError("deep")
        json.loads("[1, 2]", parse_int=lambda text: throw(depth - 1))
    finally:
        here()


CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))


def by_c(a, b):
    here()
    return a[0] - b[0]


def work(number):
    for i in range(ROUNDS):
        recurse(1 + (i * 7 + number) % 60)
        sum(walk(i % 12))
        sorted(Item(k * 7 % 11) for k in range(8))
        {Item(k): k for k in range(5)}
        hasattr(Item(1) + Item(2), "none")
        re.sub("a+", lambda match: str(here()), "baab" * 5)
        try:
            throw(i % 9)
        except ValueError:
            here()
        numbers = (ctypes.c_int * 9)(*((k * 5) % 9 for k in range(9)))
        ctypes.CDLL(None).qsort(numbers, 9, 4, CALLBACK(by_c))


async def tasks():
    for i in range(ROUNDS):
        await asyncio.gather(*(task(i % 5) for _ in range(3)))


work(0)
asyncio.run(tasks())
for _ in range(3):
    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
