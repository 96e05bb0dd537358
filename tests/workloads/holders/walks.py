"""What a walk must not change, and its cost: `walks.py LIBRARY MODE` with the library of holders/examples/find_holders.rs."""

import atexit
import ctypes
import gc
import os
import sys
import threading
import time

from planted import PYTHON, Plain, Probe, tensor

LIBRARY = sys.argv[1]


def large_heap(count):
    """Objects that refer to three others."""
    nodes = [Plain(None) for _ in range(count)]
    for number, node in enumerate(nodes):
        node.first, node.attr, node.other = (nodes[number * factor % count] for factor in (7, 11, 13))
    return nodes


class Deleted:
    count = 0

    def __init__(self):
        self.own = self

    def __del__(self):
        Deleted.count += 1


def quiet():
    """No code of the program runs, nothing is allocated, and all counts are as before."""
    probe = Probe(LIBRARY, ctypes.PyDLL)
    events = []
    
    def generate(value):
        yield 1
        print(value)

    kept = [[tensor() for _ in range(5)], {"key": tensor()}, Plain(tensor()), generate(tensor())]
    next(kept[3])
    alone = tensor()
    arguments = probe.arguments()
    nothing = probe.library.find_holders_go
    nothing.argtypes = probe.run.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]

    def record(*event):
        events.append(event[1] if isinstance(event[1], str) else str(event[0]))

    some = [*kept, *kept[0], kept[1]["key"], kept[2].attr, Plain, sys, sys.modules, quiet, tensor, Plain.__dict__, "key"]

    def counts():
        return [sys.getrefcount(one) for one in some], gc.isenabled(), gc.get_threshold()

    sys.addaudithook(record)
    gc.callbacks.append(record)

    def measured(call):
        before = counts()
        del events[:]
        sys.setprofile(record)
        sys.settrace(record)
        blocks, collected = sys.getallocatedblocks(), gc.get_count()
        call(*arguments)
        blocks, after = sys.getallocatedblocks() - blocks, gc.get_count()
        sys.settrace(None)
        sys.setprofile(None)
        seen = events[:]
        assert counts() == before, (before, counts())
        return seen, blocks, [new - old for new, old in zip(after, collected)]

    for enable in (gc.enable, gc.disable):
        gc.collect()
        # A garbage cycle whose finalizer would run, and up to 3.11 a collection at the next allocation. Later versions
        # collect between two instructions, then also after this test's own allocations.
        Deleted()
        enable()
        gc.set_threshold(1 if PYTHON < (3, 12) else 100000)
        try:
            raise KeyError("of the program")
        except KeyError as error:
            for call in (nothing, probe.run):
                measured(call)
            unchanged, walked = measured(nothing), measured(probe.run)
            assert sys.exc_info()[1] is error and error.__traceback__ is sys.exc_info()[2]
        gc.set_threshold(700)
        gc.disable()
        assert walked == unchanged, (unchanged, walked)
    some.clear()
    found = probe.result(probe.run(*arguments))
    assert len(found.holders) == 5 and found.bytes == 9 and all(one.frees == one.bytes for one in found.holders), found.holders
    assert all(one.unused for one in found.holders), found.holders
    print("quiet", len(walked[0]), Deleted.count)


def threads():
    """Walks while other threads run Python, begin and end."""
    probe = Probe(LIBRARY)
    end = threading.Event()
    errors = []

    def work(number):
        try:
            kept = {}
            while not end.is_set():
                kept[len(kept) % 50] = [Plain(number), (one for one in (kept, number)), lambda: kept]
                next(kept[0][1], None)
                if number % 2:
                    thread = threading.Thread(target=kept.clear)
                    thread.start()
                    thread.join()
        except BaseException as error:
            errors.append(error)

    held = [tensor() for _ in range(100)]
    workers = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for worker in workers:
        worker.start()
    for _ in range(100):
        found = probe.find()
        assert found.cut == "whole" and found.holders[0].blocks == 100, found.holders
    end.set()
    for worker in workers:
        worker.join()
    del held
    assert errors == []
    print("threads", probe.library.find_holders_walks_in_own_thread(), probe.library.find_holders_walks())


def end():
    """While the interpreter ends there is no walk: of its thread, and of one that had not returned."""
    library = ctypes.CDLL(LIBRARY)
    threading.Thread(target=library.find_holders_walks_after, args=(1,), daemon=True).start()
    atexit.register(lambda: print("atexit", library.find_holders_walks(), flush=True))
    ctypes.pythonapi.Py_AtExit(library.find_holders_print)


def waiting():
    """A thread waits for the lock while the interpreter ends."""
    library = ctypes.CDLL(LIBRARY)
    threading.Thread(target=library.find_holders_walks_after, args=(0,), daemon=True).start()
    while not library.find_holders_waits():
        pass

    class Late:
        """Is freed while the interpreter ends, and lets other threads have the lock."""

        def __del__(self, write=os.write, number=os.open(os.devnull, os.O_WRONLY)):
            for _ in range(3000):
                write(number, b"x")

    sys.modules["late"] = Late()
    # It keeps the lock, and the end begins right after it.
    atexit.register(ctypes.PyDLL(LIBRARY).find_holders_go)


def interpreters():
    """A walk is one of the main interpreter only."""
    try:
        import _interpreters
    except ImportError:
        import _xxsubinterpreters as _interpreters
    program = "import ctypes\nfor load in (ctypes.PyDLL, ctypes.CDLL): print(load(%r).find_holders_walks(), end=' ')\n" % LIBRARY
    thread = (
        "import threading\ndef work():\n  for line in %r.splitlines(): pass\n  exec(%r)\n"
        "thread = threading.Thread(target=work)\nthread.start()\nthread.join()\n" % (program, program)
    )
    # Of an interpreter with a separate lock, where there are such; ctypes is not for those in 3.12.
    options = {"isolated": False} if PYTHON > (3, 8) else {}
    own = _interpreters.create("legacy") if PYTHON >= (3, 13) else _interpreters.create(**options)
    run = getattr(_interpreters, "run_string")
    for code in (program, thread):
        failed = run(own, code + "import sys; sys.stdout.flush()")
        assert failed is None, failed
    held = [tensor()]
    for load in (ctypes.PyDLL, ctypes.CDLL):
        assert len(Probe(LIBRARY, load).find().holders) == 1
    del held
    _interpreters.destroy(own)
    print("interpreters")


def bounds():
    """A walk that reaches a bound is marked, and does not determine what would be freed."""
    heap = large_heap(100000)
    heap.append([tensor() for _ in range(10)])
    probe = Probe(LIBRARY)
    whole = probe.find()
    assert whole.cut == "whole" and whole.holders[0].frees == 10
    for cut, limits in (("time", {"time": 1}), ("size", {"objects": 1000}), ("size", {"references": 1000})):
        found = probe.find(**limits)
        assert found.cut == cut and all(holder.frees == -1 for holder in found.holders), (limits, found.holders)
    print("bounds")


def cost():
    """The processor's time of a walk, of a collection of the same heap, and the numbers of what was walked."""
    heap = large_heap(int(*sys.argv[3:] or [250000]))
    heap.append([tensor() for _ in range(10000)])
    probe = Probe(LIBRARY, ctypes.PyDLL)
    gc.disable()
    arguments = probe.arguments()
    measured = []
    for call in (gc.collect, lambda: probe.run(*arguments[:2], ctypes.c_size_t(arguments[2]), arguments[3])):
        times = []
        for _ in range(3):
            begin = time.thread_time()
            result = call()
            times.append(time.thread_time() - begin)
        measured.append(min(times))
    found = probe.result(result)
    assert found.cut == "whole" and found.holders[0].blocks == 10000, found.holders
    print("elapsed", found.us / 1e6, "collection", measured[0], "walk", measured[1], "objects", found.objects, "references", found.references)


if __name__ == "__main__":
    {"quiet": quiet, "threads": threads, "end": end, "waiting": waiting, "interpreters": interpreters,
     "bounds": bounds, "cost": cost}[sys.argv[2]]()
