"""Variables of frames that run, and the values with which they work."""

import functools
import os
import re
import sys
import threading

from planted import PYTHON, Thing, case, line_of, tensor

FILE = os.path.basename(__file__)

holder = other = None


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

    def work():
        shared = box.pop()
        begun.set()
        end.wait()
        del shared

    begun, end = threading.Event(), threading.Event()
    shared = tensor()
    box = [shared]
    thread = threading.Thread(target=work)
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
def what_only_a_loop_has(check):
    """Its iterator refers to the element too, and stays when the call has failed."""

    class Own:
        """Its own iterator."""

        def __init__(self, value):
            self.value = value

        def __iter__(self):
            return self

        def __next__(self):
            return 1

    def inner():
        check.find()
        raise Stop

    items = [tensor()]
    for _ in Own(items[0]):
        try:
            inner()
        except Stop:
            check.kept("items[0]", "local of what_only_a_loop_has", frees=0)
            items.clear()
            check.freed(0)
            break
    check.freed(1)


@case
def variables_of_generators_that_run(check):
    """A variable refers to the generator, which has the frame."""

    def run():
        inside = tensor()
        check.find()
        del inside
        yield 1

    running = run()
    next(running)
    name = "variables_of_generators_that_run.run" if PYTHON >= (3, 11) else "run"
    check.kept("inside", "local of " + name)
    check.freed(1)
    running.close()


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
    assert found.text == "list[0…2]" and re.match(r"native code or .*(comprehensions|<listcomp>).* \(frames\.py:\d+\)$", found.place), found
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

    check.kept("value", "local of class_bodies.Body" if PYTHON >= (3, 11) else "local of Body")
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
def namespaces_that_are_no_modules(check):
    """Of code that runs: its global variables, and others."""

    def execute():
        own = {"__name__": "unlisted", "check": check, "value": tensor()}
        code = compile("check.find()\ncheck = value = None\n", __file__, "exec")
        return functools.partial(exec, code, own, {"more": tensor(2)})

    execute()()
    check.kept("value", "global of unlisted")
    check.kept("more", "local of <module>", size=2)
    check.freed(3)


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


@case
def variables_that_are_not_read_again(check):
    """By the instructions that follow, whichever way they go on."""

    def loops():
        unread, read, assigned = tensor(), tensor(), tensor()
        for number in range(2):
            if number:
                str(read)
                check.find()
            assigned = tensor()

    def handlers():
        handled, closed, unread = tensor(), tensor(), tensor()
        try:
            check.find()
        except ValueError:
            str(handled)
        finally:
            str(closed)

    def by_name():
        value = tensor()
        check.find()
        return "value" in locals()

    def closure():
        value = tensor()
        check.find()
        return lambda: value

    def two():
        one = other = tensor()
        check.find()

    def container():
        kept = [tensor(), tensor()]
        check.find()

    for function, unused in (
        (loops, {"unread", "assigned"}), (handlers, {"unread"}), (by_name, set()), (closure, set()), (two, set()),
        (container, {"kept[0…1]"}),
    ):  # fmt: skip
        function()
        assert {of.text for of in check.found.holders if of.unused} == unused, (function, check.found.holders)
