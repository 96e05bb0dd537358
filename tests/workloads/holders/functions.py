"""Functions, and what is like them."""

import asyncio
import concurrent.futures
import functools
import os

from planted import PYTHON, Thing, case, tensor

FILE = os.path.basename(__file__)

holder = other = None


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
    check.kept("holder → closure of closures.make.inner → captured", "global")
    check.kept("holder → closure of closures.make.inner → second", "global", size=2)
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


@case
def caches(check):
    global holder

    @functools.lru_cache(None)
    def unbounded(key):
        return tensor()

    @functools.lru_cache(8)
    def bounded(key, other=None):
        return {"result": tensor(2)}

    @functools.lru_cache
    def state():
        return Thing(kept=[])

    unbounded(1), unbounded("a"), bounded("b"), bounded(2, other=1)
    state().kept.extend([tensor(8), tensor(8)])
    holder = [unbounded, bounded, state]
    del unbounded, bounded, state
    check.find()
    check.kept("cache of holder[0](), 2 results", size=2, blocks=2)
    check.kept("cache of holder[1]()['result'], 2 results", size=4, blocks=2)
    check.kept("cache of holder[2]().kept[0…1], 1 result", size=16, blocks=2)
    holder[0].cache_clear()
    holder[2].cache_clear()
    check.freed(18)


@case
def arguments_of_caches(check):
    """An object that no other object has is an argument, as a method's object is."""
    global holder

    @functools.lru_cache(8)
    def bounded(thing, number):
        return number

    @functools.lru_cache(None)
    def unbounded(thing, number):
        return number

    bounded(Thing(kept=tensor()), 1)
    unbounded(Thing(other=tensor(2)), 1)
    holder = [bounded, unbounded]
    del bounded, unbounded
    check.find()
    check.kept("cache of holder[0]() → arguments[0].kept, 1 result")
    check.kept("cache of holder[1]() → arguments[0].other, 1 result", size=2)
    holder[0].cache_clear()
    check.freed(1)


@case
def cached_properties(check):
    global holder

    class Sample:
        @functools.cached_property
        def mask(self):
            return tensor()

    class Derived(Sample):
        pass

    holder = [Sample(), Derived()]
    [of.mask for of in holder]
    check.of_global("holder[0…1].mask, cached property", size=2, blocks=2)
    holder[:] = []
    check.freed(2)


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
    assert found.text == "task → coroutine %s (%s:%d) value" % (name, FILE, line), found
    assert found.place.startswith("local of %s (" % ("tasks.main" if PYTHON >= (3, 11) else "main")), found
    check.freed(1)


@case
def results_of_tasks(check):
    """Also of a class that Python code defines, and of futures."""
    global holder

    async def work():
        return tensor()

    async def main():
        global holder
        holder = [asyncio.ensure_future(work()) for _ in range(3)]
        await asyncio.wait(holder)

    asyncio.run(main())
    future = concurrent.futures.Future()
    future.set_result({"value": tensor(8)})
    holder.append(future)
    del future
    check.find()
    check.kept("holder[0…2].result()", size=3, blocks=3)
    check.kept("holder[3].result()['value']", size=8)
    holder = None
    check.freed(11)


@case
def calls_that_wait(check):
    """An event loop has them: the variables of several are those of one function, and those of a caller come first."""

    async def handle(event):
        logits, unread = tensor(), tensor(4)
        await event.wait()
        print(logits)

    async def serve(event):
        kept = [tensor(8), tensor(8)]
        await asyncio.wait([asyncio.ensure_future(handle(event)) for _ in range(3)])
        print(kept)

    async def main():
        event = asyncio.Event()
        asyncio.get_running_loop().call_soon(walk)
        asyncio.get_running_loop().call_later(0, event.set)
        await serve(event)

    def walk():
        # The first round of the loop starts the calls.
        asyncio.get_running_loop().call_soon(check.find)

    asyncio.run(main())
    function = "calls_that_wait.%s" if PYTHON >= (3, 11) else "%s"
    places = {name: (function % name, FILE, of.__code__.co_firstlineno + 2) for name, of in (("handle", handle), ("serve", serve))}
    place = "local of 3 suspended calls of %s (%s:%d)" % places["handle"]
    assert not check.kept("logits", place, size=3, blocks=3, frees=-1).unused
    assert check.kept("unread", place, size=12, blocks=3, frees=-1).unused
    check.kept("kept[0…1]", "local of suspended %s (%s:%d)" % places["serve"], size=16, blocks=2)
    check.freed(31)
