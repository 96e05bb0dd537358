"""Plants holders, and compares what a walk finds with what is planted and with what is freed without a holder."""

import collections
import ctypes
import gc
import os
import sys
import weakref

PYTHON = sys.version_info[:2]


class Planted(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("object", "block", "bytes", "sharers")]


class Tensor:
    """Stands for a tensor."""

    __slots__ = ("__weakref__",)


class Memory:
    """The memory of tensors that live, without a reference to them."""

    live = {}
    references = {}
    sharers = collections.Counter()
    count = 0
    freed = 0

    @classmethod
    def plant(cls, tensor, size, block=None):
        cls.count += 1
        number = cls.count
        block = block or number

        def gone(_):
            cls.live.pop(number, None)
            cls.references.pop(number, None)
            cls.sharers[block] -= 1
            if not cls.sharers[block]:
                cls.freed += size

        cls.live[number] = (id(tensor), block, size)
        cls.sharers[block] += 1
        cls.references[number] = weakref.ref(tensor, gone)
        return tensor


def tensor(size=1, block=None):
    return Memory.plant(Tensor(), size, block)


Holder = collections.namedtuple("Holder", "kind bytes blocks frees text place also unused")


class Found:
    """The result of a walk."""

    def __init__(self, text):
        lines = [line.split("\t") for line in text.splitlines()]
        (self.cut, *numbers), *rest = (line[1:] for line in lines)
        self.us, self.objects, self.references, self.bytes = map(int, numbers)
        self.holders = [
            Holder(line[1], int(line[2]), int(line[3]), int(line[4]), *line[5:8], line[8] == "true")
            for line in lines[1:] if line[0] == "holder"
        ]
        self.blocks = {int(line[1]): int(line[2]) for line in lines[1:] if line[0] == "block"}


class Probe:
    def __init__(self, path, load=ctypes.CDLL):
        self.library = load(path)
        self.run = self.library.find_holders
        self.run.restype = ctypes.c_ssize_t
        self.read = self.library.find_holders_text
        self.read.argtypes = [ctypes.c_char_p, ctypes.c_size_t]

    def arguments(self, time=0, objects=0, references=0):
        live = list(Memory.live.values())
        planted = (Planted * max(len(live), 1))()
        for place, (address, block, size) in zip(planted, live):
            place.object, place.block, place.bytes = address, block, size
            place.sharers = Memory.sharers[block]
        return b"Tensor", planted, len(live), (ctypes.c_uint64 * 3)(time, objects, references)

    def find(self, **bounds):
        class_, planted, count, bounds = self.arguments(**bounds)
        return self.result(self.run(class_, planted, ctypes.c_size_t(count), bounds))

    def result(self, length):
        if length < 0:
            return None
        text = ctypes.create_string_buffer(length)
        self.read(text, length)
        return Found(text.raw.decode())


class Check:
    """Compares a walk with what a case has planted."""

    def __init__(self, probe):
        self.probe = probe
        self.before = Memory.freed

    def find(self):
        """Walks; the other methods are about this walk."""
        self.before = Memory.freed
        self.found = self.probe.find()
        assert self.found is not None and self.found.cut == "whole", self.found
        return self.found

    def holder(self, text):
        texts = [holder.text for holder in self.found.holders]
        assert texts.count(text) == 1, (text, self.found.holders)
        return self.found.holders[texts.index(text)]

    def kept(self, text, place=None, size=1, blocks=1, frees=None, kind="object"):
        """The holder with this text is found. `place`: "global" of the case's module, or "local of" a function of it.
        `frees`: all, by default."""
        frame = sys._getframe(1)
        while frame.f_code.co_filename == __file__:
            frame = frame.f_back
        file = os.path.basename(frame.f_code.co_filename)
        holder = self.holder(text)
        if place == "global":
            assert holder.place == "global of " + frame.f_globals["__name__"], holder
        elif place is not None and place.startswith("local of") and "(" not in place:
            assert holder.place.startswith("%s (%s:" % (place, file)), (place, holder)
        elif place is not None:
            assert holder.place == place, (place, holder)
        wanted = (kind, size, blocks, size if frees is None else frees)
        assert holder[:4] == wanted, (wanted, holder)
        return holder

    def freed(self, size):
        """Without the holder."""
        gc.collect()
        assert Memory.freed - self.before == size, (size, Memory.freed - self.before, self.found.holders)

    def of_global(self, text, **more):
        self.find()
        return self.kept(text, "global", **more)


CASES = []


def case(function):
    CASES.append(function)
    return function


class Thing:
    """An object with attributes."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes) if attributes else None


class Plain:
    """An object with attributes that no code has seen as a dictionary."""

    def __init__(self, value):
        self.first = None
        self.attr = value


def line_of(function, text):
    """The number of the line in this file, from the function's first on, that contains the text."""
    with open(function.__code__.co_filename) as file:
        lines = file.read().splitlines()
    first = function.__code__.co_firstlineno
    return next(number for number, line in enumerate(lines[first - 1:], first) if text in line)
