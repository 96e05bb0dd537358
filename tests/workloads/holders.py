"""Plants holders of many kinds and compares what a walk finds with what is planted, and what letting go of a holder
really frees. Run as `holders.py LIBRARY [CASE …]` with holders/examples/find_holders.rs; prints the number of cases."""

import asyncio
import collections
import contextvars
import ctypes
import dataclasses
import functools
import gc
import json.decoder
import os
import queue
import sys
import threading
import traceback
import types
import typing
import weakref

PYTHON = sys.version_info[:2]
FILE = os.path.basename(__file__)


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


Holder = collections.namedtuple("Holder", "kind bytes blocks frees text place")


class Found:
    """The result of a walk."""

    def __init__(self, text):
        lines = [line.split("\t") for line in text.splitlines()]
        (self.cut, *numbers), *rest = (line[1:] for line in lines)
        self.us, self.objects, self.references, self.bytes = map(int, numbers)
        self.holders = [
            Holder(line[1], int(line[2]), int(line[3]), int(line[4]), line[5], line[6])
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
        """The holder with this text is found. `frees`: all, unless it says otherwise."""
        if place is not None and place.startswith("local of") and "(" not in place:
            place = "%s (%s:" % (place, FILE)
        holder = self.holder(text)
        if place is not None:
            assert holder.place == place or place.endswith(":") and holder.place.startswith(place), (place, holder)
        wanted = (kind, size, blocks, size if frees is None else frees)
        assert holder[:4] == wanted, (wanted, holder)
        return holder

    def freed(self, size):
        """After the holder has let go."""
        gc.collect()
        assert Memory.freed - self.before == size, (size, Memory.freed - self.before, self.found.holders)

    def of_global(self, text, **more):
        self.find()
        return self.kept(text, "global of __main__", **more)


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


holder = None


@case
def attributes(check):
    global holder
    holder = Plain(tensor())
    check.of_global("holder.attr")
    holder.attr = None
    check.freed(1)


@case
def attributes_in_a_dictionary(check):
    global holder
    holder = Plain(tensor())
    vars(holder)["other"] = 1
    check.of_global("holder.attr")
    del holder.attr
    check.freed(1)


@case
def many_attributes(check):
    global holder
    holder = Plain(None)
    for number in range(100):
        setattr(holder, "a%d" % number, None)
    holder.last = tensor()
    check.of_global("holder.last")
    del holder.last
    check.freed(1)


@case
def nested_attributes(check):
    global holder
    holder = Plain(Thing(deep=Plain(tensor())))
    check.of_global("holder.attr.deep.attr")
    holder = None
    check.freed(1)


@case
def attributes_of_many_objects(check):
    """Their names are found without giving the objects dictionaries."""
    global holder
    holder = [Plain(tensor()) for _ in range(100)]
    size = sys.getsizeof(holder[0])
    check.of_global("holder[0…99].attr", size=100, blocks=100)
    assert sys.getsizeof(holder[0]) == size
    holder.clear()
    check.freed(100)


@case
def lists(check):
    global holder
    holder = [None, 1.5, [tensor(), tensor(), tensor()]]
    check.of_global("holder[2][0…2]", size=3, blocks=3)
    holder[2].clear()
    check.freed(3)


@case
def one_element(check):
    global holder
    holder = [0, tensor()]
    check.of_global("holder[1]")
    del holder[1]
    check.freed(1)


@case
def one_hundred_thousand_elements(check):
    global holder
    holder = [tensor() for _ in range(100000)]
    check.of_global("holder[0…99999]", size=100000, blocks=100000)
    holder.clear()
    check.freed(100000)


@case
def a_list_of_two_variables(check):
    """Emptying the list frees what it has; a single element only if it is removed."""
    global holder, other
    holder = other = [tensor(), tensor()]
    check.find()
    [found] = check.found.holders
    assert found.text in ("holder[0…1]", "other[0…1]"), found
    assert found[:4] == ("object", 2, 2, 2)
    other.clear()
    check.freed(2)


@case
def a_tensor_of_two_variables(check):
    global holder, other
    holder = other = tensor()
    check.find()
    [found] = check.found.holders
    assert (found.text, found.frees) in (("holder", 0), ("other", 0)), found
    if found.text == "holder":
        del holder
    else:
        del other
    check.freed(0)
    holder = other = None


@case
def an_element_that_is_there_twice(check):
    global holder
    holder = [tensor()] * 2
    check.of_global("holder[0]", frees=0)
    del holder[0]
    check.freed(0)


@case
def views(check):
    """Two tensors of one block: both must go."""
    global holder, other
    holder = [tensor(4, block=1 << 40)]
    other = Plain(tensor(4, block=1 << 40))
    check.find()
    [found] = check.found.holders
    assert (found.text, found.bytes, found.frees) == ("holder[0]", 4, 0), found
    del holder[0]
    check.freed(0)
    other = None
    check.freed(4)


@case
def dictionaries(check):
    global holder
    holder = {"key": tensor(), "it's": {"a b": tensor(2)}}
    check.find()
    check.kept("holder['key']", "global of __main__")
    check.kept("holder['it's']['a b']", "global of __main__", size=2)
    del holder["key"]
    check.freed(1)


@case
def dictionaries_with_numbers(check):
    global holder
    holder = {number: tensor() for number in (5, -3, 4)}
    holder[True] = tensor(7)
    holder[1 << 70] = tensor(9)
    check.find()
    check.kept("holder[-3…5]", size=3, blocks=3)
    check.kept("holder[…]", size=16, blocks=2)
    holder.clear()
    check.freed(19)


class Hostile:
    """Nothing of it may run."""

    ran = []
    attr = None

    def __init__(self, value):
        object.__setattr__(self, "kept", value)

    def record(self, *_):
        Hostile.ran.append(1)
        raise AssertionError("the walk ran code of the program")

    __getattr__ = __getattribute__ = __setattr__ = __repr__ = __str__ = __len__ = __iter__ = __bool__ = record
    __call__ = __getitem__ = __del__ = __dir__ = __sizeof__ = record
    hidden = property(record)

    def __hash__(self):
        Hostile.ran.append(1)
        return 1

    def __eq__(self, other):
        Hostile.ran.append(1)
        return self is other


@case
def code_of_the_program_does_not_run(check):
    global holder
    del Hostile.__del__
    key = Hostile(None)
    holder = {key: tensor(), "value": Hostile(tensor(2))}
    ran = len(Hostile.ran)
    check.find()
    assert len(Hostile.ran) == ran
    check.kept("holder[…]")
    check.kept("holder['value'].kept", size=2)
    holder = None
    check.freed(3)


@case
def a_tensor_as_a_key(check):
    global holder
    holder = {tensor(): 1}
    check.of_global("holder[…]")
    holder.clear()
    check.freed(1)


class Registry(dict):
    pass


@case
def subclasses_of_dict(check):
    global holder
    holder = [Registry(a=tensor()), collections.OrderedDict(b=tensor(2)), collections.defaultdict(list)]
    holder[0].attr = tensor(4)
    holder[2]["c"].append(tensor(8))
    check.find()
    check.kept("holder[0]['a']")
    check.kept("holder[1]['b']", size=2)
    check.kept("holder[0].attr", size=4)
    check.kept("holder[2]['c'][0]", size=8)
    del holder[2]["c"]
    check.freed(8)


class Names(set):
    pass


@case
def sets(check):
    global holder
    holder = Thing(plain={tensor(), tensor()}, frozen=frozenset([tensor(3)]), own=Names([tensor(4)]))
    holder.own.attr = tensor(5)
    check.find()
    check.kept("holder.plain[…]", size=2, blocks=2)
    check.kept("holder.frozen[…]", size=3)
    check.kept("holder.own[…]", size=4)
    check.kept("holder.own.attr", size=5)
    holder.plain.clear()
    check.freed(2)


@case
def deques(check):
    global holder
    holder = collections.deque([tensor(), tensor()], maxlen=5)
    check.of_global("holder[…]", size=2, blocks=2)
    holder.clear()
    check.freed(2)


class Point(typing.NamedTuple):
    x: object
    y: object


class Named(tuple):
    pass


@case
def tuples(check):
    global holder
    holder = Thing(plain=(1, (2, tensor())), point=Point(1, tensor(2)), own=Named([tensor(3)]))
    holder.own.attr = tensor(4)
    check.find()
    check.kept("holder.plain[1][1]")
    check.kept("holder.point[1]", size=2)
    check.kept("holder.own[0]", size=3)
    check.kept("holder.own.attr", size=4)
    holder.plain = None
    check.freed(1)


@dataclasses.dataclass
class Record:
    value: object


@case
def dataclass_fields(check):
    global holder
    holder = Record(tensor())
    check.of_global("holder.value")
    holder = None
    check.freed(1)


@case
def closures(check):
    global holder

    def make():
        captured, second = tensor(), tensor(2)

        def inner():
            return second, captured

        return inner

    holder = make()
    check.find()
    check.kept("holder → closure of closures.make.inner → captured", "global of __main__")
    check.kept("holder → closure of closures.make.inner → second", "global of __main__", size=2)
    holder = None
    check.freed(3)


@case
def default_arguments(check):
    global holder

    def inner(first, x=tensor(), *, y=tensor(2)):
        pass

    holder = inner
    del inner
    check.find()
    check.kept("holder → default arguments of default_arguments.inner → x")
    check.kept("holder → default arguments of default_arguments.inner['y']", size=2)
    holder.__defaults__ = None
    check.freed(1)


@case
def attributes_of_functions(check):
    global holder

    def inner():
        pass

    holder = inner
    holder.cache = {1: tensor()}
    del inner
    check.of_global("holder.cache[1]")
    del holder.cache
    check.freed(1)


@case
def partials(check):
    global holder
    holder = functools.partial(print, tensor(), end=tensor(2))
    check.find()
    check.kept("holder.args[0]")
    check.kept("holder.keywords['end']", size=2)
    holder = None
    check.freed(3)


def generate(value, inside):
    local = inside
    del inside
    yield value
    print(local)


@case
def generators(check):
    global holder
    holder = [generate(tensor(), tensor(2)), None]
    next(holder[0])
    line = generate.__code__.co_firstlineno + 3
    check.find()
    check.kept("holder[0] → generator generate (%s:%d) value" % (FILE, line))
    check.kept("holder[0] → generator generate (%s:%d) local" % (FILE, line), size=2)
    holder[0].close()
    check.freed(3)


@case
def generators_that_have_not_begun(check):
    global holder
    holder = generate(tensor(), 1)
    check.of_global("holder → generator generate (%s:%d) value" % (FILE, generate.__code__.co_firstlineno))
    holder = None
    check.freed(1)


@case
def generators_that_have_ended(check):
    global holder
    holder = generate(1, tensor())
    check.find()
    assert len(check.found.holders) == 1
    try:
        while True:
            next(holder)
    except StopIteration:
        pass
    check.find()
    assert check.found.holders == []
    check.freed(0)


class Awaited:
    def __await__(self):
        yield 1


@case
def coroutines(check):
    global holder

    async def wait(value):
        inside = [value]
        del value
        await Awaited()
        print(inside)

    holder = wait(tensor())
    holder.send(None)
    place = "coroutines.wait" if PYTHON >= (3, 11) else "wait"
    line = wait.__code__.co_firstlineno + 3
    check.of_global("holder → coroutine %s (%s:%d) inside[0]" % (place, FILE, line))
    holder.close()
    check.freed(1)


@case
def asynchronous_generators(check):
    global holder

    async def produce(value):
        yield 1
        print(value)

    holder = produce(tensor())
    first = holder.__anext__()
    try:
        first.send(None)
    except StopIteration:
        pass
    del first
    place = "asynchronous_generators.produce" if PYTHON >= (3, 11) else "produce"
    line = produce.__code__.co_firstlineno + 1
    check.of_global("holder → asynchronous generator %s (%s:%d) value" % (place, FILE, line))
    holder = None
    check.freed(1)


@case
def tasks(check):
    """A task that waits while another one runs."""

    async def wait(value, event):
        await event.wait()
        print(value)

    async def main():
        event = asyncio.Event()
        task = asyncio.ensure_future(wait(tensor(), event))
        await asyncio.sleep(0)
        check.find()
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            pass

    asyncio.run(main())
    [found] = check.found.holders
    name = "tasks.wait" if PYTHON >= (3, 11) else "wait"
    line = wait.__code__.co_firstlineno + 1
    assert found.text == "task → Task → coroutine %s (%s:%d) value" % (name, FILE, line), found
    assert found.place.startswith("local of %s (" % ("tasks.main" if PYTHON >= (3, 11) else "main")), found
    check.freed(1)


class Slots:
    __slots__ = ("empty", "slot")


class MoreSlots(Slots):
    __slots__ = ("more", "__dict__")


@case
def slots(check):
    global holder
    holder = MoreSlots()
    holder.slot, holder.more, holder.attr = tensor(), tensor(2), tensor(4)
    check.find()
    check.kept("holder.slot", "global of __main__")
    check.kept("holder.more", "global of __main__", size=2)
    check.kept("holder.attr", "global of __main__", size=4)
    del holder.slot
    check.freed(1)


@case
def class_attributes(check):
    global holder

    class Local:
        cls = tensor()

    holder = Local
    del Local
    check.of_global("holder.cls")
    del holder.cls
    check.freed(1)


@case
def attributes_of_a_class_by_its_object(check):
    Thing.shared = tensor()
    check.of_global("Thing.shared")
    del Thing.shared
    check.freed(1)


@case
def caches(check):
    global holder

    @functools.lru_cache(None)
    def unbounded(key):
        return tensor()

    @functools.lru_cache(8)
    def bounded(key):
        return tensor(2)

    unbounded(1), unbounded("a"), bounded("b")
    holder = [unbounded, bounded]
    del unbounded, bounded
    check.find()
    check.kept("holder[0][1]")
    check.kept("holder[0]['a']")
    [found] = [found for found in check.found.holders if found.bytes == 2]
    assert found.text in ("holder[1]['b']", "holder[1][…]") and found.frees == 2, found
    holder[0].cache_clear()
    check.freed(2)


@case
def weak_references(check):
    """They do not count: one strong reference is the only holder."""
    global holder, other
    holder = [tensor()]
    other = [weakref.ref(holder[0]), weakref.WeakValueDictionary(a=holder[0]), weakref.WeakSet(holder)]
    proxy = weakref.proxy(holder[0])
    check.of_global("holder[0]")
    assert len(check.found.holders) == 1
    holder.clear()
    check.freed(1)
    del proxy
    other = None


@case
def values_of_weak_keys(check):
    global holder, other
    other = Thing()
    holder = weakref.WeakKeyDictionary()
    holder[other] = tensor()
    check.of_global("holder.data[…]")
    other = None
    check.freed(1)


@case
def cycles(check):
    """Nothing refers to them: a collection frees them."""

    def plant():
        one, two = Thing(), Thing()
        one.two, two.one, one.kept = two, one, tensor()

    gc.disable()
    plant()
    check.find()
    [found] = check.found.holders
    assert found[:4] == ("cycle", 1, 1, -1) and found.place == "reference cycle", found
    assert found.text in ("Thing.kept", "Thing.one.kept", "dict['kept']", "Thing.two.one.kept"), found
    check.freed(1)
    gc.enable()


def fail(value, then=None):
    kept = value
    del value
    if then is not None:
        then()
    raise ValueError(kept is None)


def line_of(function, text):
    """The number of the line in this file, from the function's first on, that contains the text."""
    with open(__file__) as file:
        lines = file.read().splitlines()
    first = function.__code__.co_firstlineno
    return next(number for number, line in enumerate(lines[first - 1:], first) if text in line)


@case
def tracebacks(check):
    global holder
    try:
        fail(tensor())
    except ValueError as error:
        holder = Thing(error=error)
    line = line_of(fail, "raise ValueError")
    check.of_global("holder.error → traceback → fail (%s:%d) kept" % (FILE, line), kind="traceback")
    holder = None
    check.freed(1)


@case
def tracebacks_of_chained_exceptions(check):
    global holder

    def again():
        try:
            fail(tensor())
        except ValueError:
            raise KeyError(1)

    try:
        try:
            again()
        except KeyError as error:
            raise OSError(2) from error
    except OSError as error:
        holder = error
    line = line_of(fail, "raise ValueError")
    text = "holder → KeyError → ValueError → traceback → fail (%s:%d) kept" % (FILE, line)
    check.of_global(text, kind="traceback")
    holder.__cause__.__context__ = holder.__context__.__context__ = None
    check.freed(1)


@case
def arguments_of_exceptions(check):
    global holder
    holder = ValueError("text", tensor())
    holder.attr = tensor(2)
    check.find()
    check.kept("holder.args[1]")
    check.kept("holder.attr", size=2)
    holder.args = ()
    check.freed(1)


@case
def exceptions_that_are_handled(check):
    try:
        fail(tensor())
    except ValueError:
        check.find()
    line = line_of(fail, "raise ValueError")
    text = "ValueError → traceback → fail (%s:%d) kept" % (FILE, line)
    check.kept(text, "exception that is being handled", kind="traceback")
    check.freed(1)


@case
def exceptions_that_callers_handle(check):
    def inner():
        try:
            raise KeyError
        except KeyError:
            check.find()

    try:
        fail(tensor())
    except ValueError:
        inner()
    line = line_of(fail, "raise ValueError")
    text = "→ traceback → fail (%s:%d) kept" % (FILE, line)
    [found] = check.found.holders
    assert found.text in ("ValueError %s" % text, "KeyError → ValueError %s" % text), found
    assert found.place == "exception that is being handled", found
    check.freed(1)


@case
def exceptions_that_other_threads_handle(check):
    def work():
        try:
            fail(tensor())
        except ValueError:
            begun.set()
            end.wait()

    begun, end = threading.Event(), threading.Event()
    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    check.find()
    line = line_of(fail, "raise ValueError")
    text = "ValueError → traceback → fail (%s:%d) kept" % (FILE, line)
    check.kept(text, "exception that is being handled", kind="traceback")
    end.set()
    thread.join()
    check.freed(1)


@case
def frames_of_other_threads(check):
    def work(argument):
        in_thread = [tensor(2)]
        begun.set()
        end.wait()
        del in_thread

    begun, end = threading.Event(), threading.Event()
    thread = threading.Thread(target=work, args=(tensor(),))
    thread.start()
    begun.wait()
    check.find()
    name = "frames_of_other_threads.work" if PYTHON >= (3, 11) else "work"
    place = "local of %s (%s:%d)" % (name, FILE, line_of(frames_of_other_threads, "end.wait()"))
    check.kept("in_thread[0]", place, size=2)
    assert any(found.bytes == 1 for found in check.found.holders)
    end.set()
    thread.join()
    del thread
    check.freed(3)


@case
def calls_of_other_threads_have_not_returned(check):
    """A variable of one thread is not freed because the calls of another one return."""
    global holder

    def work(shared):
        begun.set()
        end.wait()
        del shared

    begun, end = threading.Event(), threading.Event()
    shared = tensor()
    thread = threading.Thread(target=work, args=(shared,))
    thread.start()
    begun.wait()

    def inner():
        check.find()

    inner()
    [found] = check.found.holders
    assert (found.text, found.frees) == ("shared", 0), found
    end.set()
    thread.join()
    del thread
    del shared
    check.freed(1)


class Stop(Exception):
    pass


@case
def variables(check):
    x = tensor()
    check.find()
    check.kept("x", "local of variables")
    del x
    check.freed(1)


@case
def variables_of_callers(check):
    """Once the calls have returned, which refer to it too."""

    def inner(argument, *more, **named):
        copied = [argument, more, named]
        check.find()
        copied.append(1)
        raise Stop

    x = tensor()
    try:
        inner(x, x, name=x)
    except Stop:
        pass
    check.kept("x", "local of variables_of_callers")
    del x
    check.freed(1)


@case
def values_with_which_a_caller_works(check):
    """The argument is on the caller's stack until the call returns."""

    def inner(*_):
        check.find()
        raise Stop

    x = tensor()
    try:
        print([x, inner(x, Thing(attr=x))])
    except Stop:
        pass
    check.kept("x", "local of values_with_which_a_caller_works")
    del x
    check.freed(1)


@case
def what_a_loop_goes_over(check):
    """The loop goes on when the call has failed, and refers to its generator."""

    def values(inside):
        yield 1
        yield inside

    def inner():
        check.find()
        raise Stop

    x = values(tensor())
    for _ in x:
        try:
            inner()
        except Stop:
            line = line_of(what_a_loop_goes_over, "yield 1")
            name = "what_a_loop_goes_over.values" if PYTHON >= (3, 11) else "values"
            check.kept("x → generator %s (%s:%d) inside" % (name, FILE, line))
            holder = x
            del x, holder
            check.freed(0)
            break
    check.freed(1)


@case
def a_variable_that_a_loop_goes_over(check):
    def values():
        yield from ()

    def inner():
        check.find()
        raise Stop

    class Own:
        """Its own iterator."""

        def __init__(self, value):
            self.value = value

        def __iter__(self):
            return self

        def __next__(self):
            return 1

    x = Own(tensor())
    for _ in x:
        try:
            inner()
        except Stop:
            check.kept("x.value")
            x.value = None
            check.freed(1)
            break


@case
def temporary_arguments(check):
    """Only a running call refers to it."""

    def inner(argument):
        check.find()
        [found] = check.found.holders
        assert found.text == "argument" and found.place.startswith("local of "), found
        del argument
        check.freed(check.found.holders[0].frees)

    inner(tensor())
    check.freed(1)


@case
def arguments_in_cells(check):
    """An argument that a closure uses."""

    def outer(argument, plain, last):
        other = plain

        def inner():
            return argument, last

        check.find()
        place = "local of %s (%s:" % ("arguments_in_cells.outer" if PYTHON >= (3, 11) else "outer", FILE)
        for text, size in (("argument", 1), ("last", 4)):
            found = check.holder(text)
            assert found.place.startswith(place), found
        # The older name of two: they are equal.
        found = [found for found in check.found.holders if found.bytes == 2]
        assert [found.text in ("plain", "other") for found in found] == [True], found
        del inner

    outer(tensor(), tensor(2), tensor(4))
    check.freed(7)


@case
def free_variables_of_running_frames(check):
    def outer():
        x, y = tensor(), tensor(2)

        def inner():
            z = tensor(4)
            check.find()
            return x, y, z

        return inner

    outer()()
    check.find_texts = {found.text: found.bytes for found in check.found.holders}
    assert check.find_texts == {"x": 1, "y": 2, "z": 4}, check.found.holders
    check.freed(7)


@case
def comprehensions(check):
    """What they have made so far, and their variables."""

    def step(item):
        if item == 3:
            check.find()
        return tensor()

    made = [step(item) for item in range(5)]
    [found] = check.found.holders
    assert found[:4] == ("native", 3, 3, -1), found
    assert (found.text, found.place) == ("list[0…2]", "native code or a running call")
    del made
    check.freed(5)


@case
def variables_of_comprehensions(check):
    def step(item):
        check.find()
        check.holder("item")

    def values():
        yield tensor()

    def plain(values):
        return [step(item) for item in values]

    def with_closure(values):
        return [(lambda: item)() and step(item) for item in values]

    for run in (plain, with_closure):
        run(values())
        [found] = check.found.holders
        assert found.bytes == 1 and found.place.startswith("local of "), found
        check.freed(1)


@case
def class_bodies(check):
    class Body:
        value = tensor()
        check.find()

    [found] = check.found.holders
    assert found.text in ("dict['value']", "value"), found
    del Body
    check.freed(1)


@case
def executed_code(check):
    namespace = {"check": check, "tensor": tensor}
    exec("def run():\n    check.find()\nvalue = tensor()\nrun()\n", namespace)
    check.kept("namespace['value']", "local of executed_code")
    namespace.clear()
    check.freed(1)


@case
def methods(check):
    """What a method belongs to."""
    global holder

    class Hook:
        def __init__(self):
            self.feats = [tensor()]

        def run(self):
            pass

    holder = [Hook().run, [tensor(2)].append]
    check.find()
    check.kept("holder[0].__self__.feats[0]")
    check.kept("holder[1].__self__[0]", size=2)
    holder.clear()
    check.freed(3)


@case
def descriptors(check):
    global holder

    def make(value):
        return lambda *_: value

    class Descriptors:
        fixed = staticmethod(make(tensor()))
        of_class = classmethod(make(tensor(2)))
        computed = property(make(tensor(4)))

    holder = Descriptors
    del Descriptors
    check.find()
    texts = {found.bytes: found.text for found in check.found.holders}
    assert texts[4] == "holder.computed.fget → closure of descriptors.make.<lambda> → value", texts
    for size, name in ((1, "fixed"), (2, "of_class")):
        assert texts[size].startswith("holder.%s" % name) and texts[size].endswith(" → value"), texts
    holder = None
    check.freed(7)


@case
def context_variables(check):
    global holder
    holder = contextvars.ContextVar("holder")
    token = holder.set(tensor())
    check.find()
    [found] = check.found.holders
    assert found.bytes == 1, found
    holder.reset(token)
    del token
    check.freed(1)


@case
def variables_of_threads(check):
    """`threading.local`: the interpreter's own data of the thread has it."""
    global holder
    holder = threading.local()
    holder.value = tensor()
    check.find()
    [found] = check.found.holders
    assert found.bytes == 1, found
    del holder.value
    check.freed(1)


@case
def queues(check):
    global holder
    holder = queue.Queue()
    holder.put(("name", tensor()))
    check.of_global("holder.queue[…][1]")
    holder.get()
    check.freed(1)


@case
def globals_of_other_modules(check):
    """Of one that is the program's, and of a library."""
    own = types.ModuleType("own")
    own.__file__ = "/home/me/own.py"
    sys.modules["own"] = own
    own.value, json.decoder.planted = tensor(), tensor(2)
    check.find()
    check.kept("value", "global of own")
    check.kept("planted", "global of json.decoder", size=2)
    del own.value, json.decoder.planted, sys.modules["own"], own
    check.freed(3)


@case
def objects_in_place_of_modules(check):
    sys.modules["odd"] = Plain(tensor())
    check.find()
    check.kept("attr", "global of odd")
    del sys.modules["odd"]
    check.freed(1)


@case
def a_variable_of_a_library_comes_last(check):
    """A list of the program is named, although a library's frame is nearer."""
    global holder
    holder = Thing(deep=Thing(items=[tensor()]))
    values = holder.deep.items

    def hook(pairs):
        check.find()
        return pairs

    del values
    json.loads("{}", object_pairs_hook=hook)
    check.kept("holder.deep.items[0]", "global of __main__")
    holder = None
    check.freed(1)


@case
def names_with_control_characters(check):
    global holder
    holder = Thing()
    setattr(holder, "a\nb\tc\x1b[31m\u202ed", tensor())
    check.of_global("holder.a?b?c?[31m?d")
    holder = None
    check.freed(1)


@case
def names_that_are_no_text(check):
    """Half of a surrogate pair."""
    global holder
    holder = {"a\ud800b": tensor()}
    check.of_global("holder['a\ufffdb']")
    holder = None
    check.freed(1)


@case
def names_of_a_megabyte(check):
    global holder
    holder = {"é" * (1 << 20): {"b" * (1 << 20): tensor()}}
    check.find()
    [found] = check.found.holders
    assert len(found.text) < 260 and found.text.startswith("holder['éééé") and "…" in found.text, found
    holder = None
    check.freed(1)


@case
def functions_with_names_of_a_megabyte(check):
    global holder
    code = "def %s(x):\n    yield x\nholder = %s(tensor())\n" % (("n" * (1 << 20),) * 2)
    exec(compile(code, "/" + "f" * (1 << 20) + ".py", "exec"), globals())
    next(holder)
    check.find()
    [found] = check.found.holders
    assert len(found.text) <= 240, found
    holder.close()
    holder = None
    for name in [name for name in globals() if len(name) > 1000]:
        del globals()[name]
    check.freed(1)


@case
def a_long_list_of_links(check):
    """A path of any length has a name."""
    global holder
    holder = None
    for number in range(3000):
        link = Plain(tensor())
        link.next = holder
        holder = link
    del link
    check.find()
    assert sum(found.bytes for found in check.found.holders) == 3000, check.found.holders
    texts = [found.text for found in check.found.holders]
    assert len(texts) < 10 and "holder.attr" in texts and "holder.next.attr" in texts, texts
    assert any(text.startswith("holder.next (×3…") for text in texts), texts
    assert any(text.startswith("holder….next") for text in texts), texts
    while holder is not None:
        holder = holder.next
    check.freed(3000)


@case
def objects_that_gc_freeze_has_set_aside(check):
    global holder
    holder = Plain([tensor()])
    gc.collect()
    gc.freeze()
    check.of_global("holder.attr[0]")
    gc.unfreeze()
    holder = None
    check.freed(1)


@case
def native_references(check):
    """A reference of native code that the collector does not see."""
    global holder
    holder = [[tensor()], tensor(2)]
    increase, decrease = ctypes.pythonapi.Py_IncRef, ctypes.pythonapi.Py_DecRef
    for of in holder:
        increase(ctypes.py_object(of))
    del of
    check.find()
    check.kept("holder[0][0]")
    check.kept("holder[1]", size=2, frees=0)
    kept = weakref.ref(holder[1])
    holder[0].clear()
    check.freed(1)
    del holder[1]
    check.freed(1)
    decrease(ctypes.py_object(kept()))
    decrease(ctypes.py_object(holder[0]))
    check.freed(3)


@case
def native_references_alone(check):
    """Nothing else refers to it."""
    holder = [tensor(), Thing()]
    address = id(holder)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(holder))
    del holder
    check.find()
    [found] = check.found.holders
    assert found[:2] == ("native", 1) and found.text == "list[0]", found
    assert found.place == "native code or a running call"
    again = ctypes.cast(address, ctypes.py_object).value
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(again))
    del again
    check.freed(1)


@case
def a_deep_recursion(check):
    """5,000 frames: the oldest one's variable is a root like any other."""

    def deep(depth):
        if depth:
            return deep(depth - 1)
        innermost = tensor(2)
        check.find()
        return innermost is None

    oldest = tensor()
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20000)
    threading.stack_size(512 << 20)
    thread = threading.Thread(target=deep, args=(5000,))
    thread.start()
    thread.join()
    threading.stack_size(0)
    sys.setrecursionlimit(limit)
    del thread
    check.kept("oldest", "local of a_deep_recursion")
    name = "a_deep_recursion.deep" if PYTHON >= (3, 11) else "deep"
    check.kept("innermost", "local of %s" % name, size=2)
    del oldest
    check.freed(3)


def main(path, *names):
    probe = Probe(path)
    count = failed = 0
    for function in CASES:
        if names and function.__name__ not in names:
            continue
        count += 1
        try:
            function(Check(probe))
        except Exception:
            failed += 1
            print("in", function.__name__, file=sys.stderr)
            traceback.print_exc()
        globals().update(holder=None, other=None)
        gc.collect()
        for number in list(Memory.live):
            print("left by", function.__name__, file=sys.stderr)
            Memory.live.pop(number)
    print("checked", count, "failed", failed)


if __name__ == "__main__":
    main(*sys.argv[1:])
