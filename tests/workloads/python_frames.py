"""Runs in each CPython: takes stacks through the probe library in every situation that Python code has, and compares
each frame with sys._getframe.

Arguments: the probe library, a folder for the program's files. Prints "checked N frames in M stacks". The interpreter's
lines are left in lines.txt in the folder, for the decoder.
"""

import asyncio
import contextlib
import ctypes
import functools
import gc
import importlib
import os
import signal
import struct
import sys
import threading
import traceback
import weakref

import python_over_and_over

LIBRARY, FOLDER = sys.argv[1:3]
VERSION = sys.version_info
QUALIFIED = VERSION >= (3, 11)

# Through CDLL the GIL is released during the call, through PyDLL it is held.
released, held = ctypes.CDLL(LIBRARY), ctypes.PyDLL(LIBRARY)
for library in (released, held):
    library.probe_take.restype = ctypes.c_uint64
    library.probe_definitions.restype = ctypes.c_size_t
    library.probe_definitions.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

PYTHON_STACK, NATIVE_STACK, CODE, MODULE, PYTHON = 130, 131, 129, 132, 138

codes, stacks, others = {}, {}, []
stacks_checked = frames_checked = 0
lines = set()
guard = threading.RLock()


class Payload:
    def __init__(self, data):
        self.data, self.at = data, 0

    def u32(self):
        (value,) = struct.unpack_from("<I", self.data, self.at)
        self.at += 4
        return value

    def bytes(self):
        length = self.u32()
        self.at += length
        return self.data[self.at - length : self.at]

    def end(self):
        assert self.at == len(self.data), (self.at, len(self.data))


def read_definitions():
    size = held.probe_definitions(None, 0)
    buffer = ctypes.create_string_buffer(size)
    assert held.probe_definitions(buffer, size) == size
    data, at = buffer.raw, 0
    while at < size:
        kind, length = struct.unpack_from("<BI", data, at)
        at += 5 + length
        payload = Payload(data[at - length : at])
        if kind == CODE:
            number, first, flags = payload.u32(), payload.u32(), payload.u32()
            assert flags == 0 and number not in codes
            codes[number] = (
                payload.bytes().decode("utf-8"),
                payload.bytes().decode("utf-8"),
                first,
                payload.bytes(),
            )
        elif kind == PYTHON_STACK:
            number, flags, count = payload.u32(), payload.u32(), payload.u32()
            frames = [(payload.u32(), payload.u32()) for _ in range(count)]
            assert all(code in codes for code, _ in frames), "a stack before its code objects"
            assert number not in stacks and number != 0
            stacks[number] = (bool(flags & 1), frames)
        else:
            others.append((kind, payload.data))
            continue
        payload.end()


def plain(text):
    """A name as the capture has it: lone surrogates are replaced."""
    return "".join("\ufffd" if 0xD800 <= ord(c) <= 0xDFFF else c for c in text)


def line_table(code):
    return code.co_linetable if VERSION >= (3, 10) else code.co_lnotab


def described(code):
    name = code.co_qualname if QUALIFIED else code.co_name
    return plain(code.co_filename), plain(name), code.co_firstlineno, line_table(code)


def check(library=released):
    """Takes the stack here and compares it with the interpreter's own. Returns the frames as (name,
    entered from C), the newest first, without this function's."""
    global stacks_checked, frames_checked
    with guard:
        number = library.probe_take(1) & 0xFFFFFFFF
        again = library.probe_take(1) & 0xFFFFFFFF
        expected = list(traceback.walk_stack(sys._getframe()))
        read_definitions()
        assert number != 0 and again != 0
        truncated, found = stacks[number]
        assert truncated == (len(expected) > 256), (truncated, len(expected))
        assert len(found) == min(len(expected), 256), (len(found), len(expected))
        result = []
        for depth, ((code, word), (frame, line)) in enumerate(zip(found, expected)):
            assert codes[code] == described(frame.f_code), (codes[code], frame.f_code)
            offset, entered_from_c = (word & 0x7FFFFFFF) - 16, bool(word >> 31)
            if depth:  # this function has moved on since the call
                lasti = frame.f_lasti
                assert offset == lasti or offset < 0 > lasti, (codes[code], offset, lasti)
                lines.add((frame.f_code.co_firstlineno, line_table(frame.f_code), offset, line))
                result.append((frame.f_code.co_name, entered_from_c))
                frames_checked += 1
        stacks_checked += 1
        return result


def flags(result, *names):
    """Whether C code entered the newest frames, which must have these names."""
    assert tuple(name for name, _ in result[: len(names)]) == names, result
    return [entered for _, entered in result[: len(names)]]


def inlined(*entered):
    """Up to 3.10 every frame is entered from C code; from 3.11 on only those with a true value in `entered`."""
    return list(entered) if VERSION >= (3, 11) else [True] * len(entered)


def nested_functions():
    def outer():
        def inner():
            return check() + check(held)

        return inner()

    assert flags(outer(), "inner", "outer", "nested_functions") == inlined(False, False, False)


def lambdas_and_comprehensions():
    result = (lambda: (lambda: check())())()
    flags(result, "<lambda>", "<lambda>", "lambdas_and_comprehensions")
    [check() for _ in range(2)]
    {check() and 1 for _ in range(2)}
    {index: check() for index in range(2)}
    list(check() for _ in range(2))
    [[check() for _ in range(2)] for _ in range(2)]


def generators():
    def leaf():
        got = yield check()
        yield got, check()
        with contextlib.suppress(GeneratorExit):
            yield
            raise AssertionError
        check()

    def delegating():
        yield from leaf()

    for _ in delegating():
        check()
        break
    generator = delegating()
    next(generator)
    generator.send(1)
    next(generator)
    generator.close()
    leaf_result = next(leaf())
    assert leaf_result[0][0] == "leaf"


def coroutines():
    async def leaf():
        check()
        await asyncio.sleep(0)
        return check()

    async def numbers():
        for number in range(2):
            check()
            yield number
            await asyncio.sleep(0)

    async def middle():
        async with Managed():
            [check() async for _ in numbers()]
            return await leaf()

    class Managed:
        async def __aenter__(self):
            check()

        async def __aexit__(self, *_):
            await asyncio.sleep(0)
            check()

    async def main():
        result = await middle()
        assert [name for name, _ in result[:3]] == ["leaf", "middle", "main"], result
        await asyncio.gather(*(leaf() for _ in range(5)))
        await asyncio.get_running_loop().run_in_executor(None, check)

    asyncio.run(main())


def decorators_and_classes():
    def decorator(function):
        check()

        @functools.wraps(function)
        def wrapper(*args):
            check()
            return function(*args)

        return wrapper

    class Meta(type):
        def __new__(meta, name, bases, space):
            check()
            return super().__new__(meta, name, bases, space)

    class Example(metaclass=Meta):
        check()

        def __init__(self):
            check()

        @property
        def attribute(self):
            return check()

        def __getattr__(self, name):
            return check()

        def __enter__(self):
            return check()

        def __exit__(self, *_):
            check()

        @staticmethod
        @decorator
        def static():
            return check()

        @classmethod
        def method(cls):
            return check()

        def __lt__(self, other):
            check()
            return False

        def __call__(self):
            return check()

    example = Example()
    example.attribute
    example.anything
    with example:
        check()
    Example.static()
    Example.method()
    sorted([example, example])
    example()


def over_and_over():
    python_over_and_over.calls(check, held)


def called_from_c():
    def key(value):
        results.append(check())
        return value

    results = []
    sorted([2, 1], key=key)
    list(map(key, [1]))
    functools.reduce(lambda a, b: key(b), [1, 2])
    functools.partial(key, 3)()
    max([1], key=key)
    assert flags(results[0], "key", "called_from_c") == inlined(True, False)
    assert flags(results[2], "key", "called_from_c") == inlined(True, False)
    assert flags(results[3], "key", "<lambda>", "called_from_c") == inlined(False, True, False)
    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda value: len(check()) and value)
    assert callback(5) == 5
    weak = weakref.finalize(type("Gone", (), {})(), check)
    gc.collect()
    assert not weak.alive


def executed_code():
    for source, name in [
        ("check()\n\nx = 1\ncheck()\n", "<string>"),
        ("def f():\n  return check()\nf()\n", "/no/such/dir/made up.py"),
        ("check(\n)\n", "bad\udcff\ud800name.py"),
        ("def größe_函数_𐐀():\n  check()\n\n\ngröße_函数_𐐀()\n", "größe/模块/😀.py"),
        ("\n" * 70000 + "check(); (lambda:\n\n check())()", "<far>"),
        ("def f():\n check()\nf()\n" * 300, "<long>"),
        ("", "<empty>"),
    ]:
        exec(compile(source, name, "exec"), {"check": check})
    eval("check()")


def imported_modules():
    sys.path.insert(0, FOLDER)
    with open(os.path.join(FOLDER, "größe_模块.py"), "w", encoding="utf-8") as file:
        file.write(
            "import sys\ncheck = sys.modules['__main__'].check\ncheck()\n\n\n"
            "def schöne_函数(tiefe=3):\n"
            "    return check() if not tiefe else schöne_函数(tiefe - 1)\n\n\n"
            "class Größe:\n    wert = schöne_函数()\n"
        )
    module = importlib.import_module("größe_模块")
    assert module.schöne_函数()[0][0] == "schöne_函数"
    del sys.path[0]


def recursion():
    def down(depth):
        return check() if depth == 0 else down(depth - 1)

    def through_c(depth):
        return check() if depth == 0 else list(map(through_c, [depth - 1]))[0]

    here = 0
    frame = sys._getframe()
    while frame:
        here, frame = here + 1, frame.f_back
    # `check` and `down` down to depth 0: one below, at and above what is kept.
    for depth in (1, 30, 254 - here - 1, 254 - here, 255 - here, 256 - here, 600):
        down(depth)
    through_c(100)


def exceptions():
    for number in range(3):
        try:
            check()
            if number == 1:
                raise ValueError(
                    check()
                )
            elif number == 2:
                1 / 0
        except ValueError:
            check()
        except ZeroDivisionError as error:
            try:
                raise KeyError from error
            except KeyError:
                check()
        else:
            check()
        finally:
            check()
    try:
        try:
            raise OSError
        finally:
            check()
    except OSError:
        pass
    with contextlib.ExitStack() as stack:
        stack.callback(check)


def many_lines():
    value = (
        len(check())
        + len(check(held)) * [
            1,
            len(
                check()
            ),
        ][
            0
        ]
    )
    text = f"""
    {check()}
    {
        check()
    }"""
    assert value and text; check()
    if (value and
            check() and
            not text):
        pass
    while check() and value:
        value = 0
    return (check(),
            check())


def threads():
    failed = []

    def work():
        try:
            for _ in range(20):
                nested_functions()
                list(map(lambda _: check(), [1]))
        except BaseException as error:
            failed.append(error)
            raise

    pool = [threading.Thread(target=work) for _ in range(8)]
    for thread in pool:
        thread.start()
    for thread in pool:
        thread.join()
    assert not failed


def signals():
    results = []
    signal.signal(signal.SIGUSR1, lambda *_: results.append(check()))
    os.kill(os.getpid(), signal.SIGUSR1)
    while not results:
        pass
    assert results[0][0][0] == "<lambda>"


def tracing():
    seen = []

    def trace(frame, event, argument):
        if len(seen) < 20 and frame.f_code.co_name == "traced":
            seen.append(check())
        return trace

    def traced():
        value = 1
        return value

    sys.settrace(trace)
    try:
        traced()
    finally:
        sys.settrace(None)
    assert len(seen) >= 4
    sys.setprofile(lambda frame, event, _: frame.f_code.co_name == "traced" and check())
    try:
        traced()
    finally:
        sys.setprofile(None)


def reused_addresses():
    """Functions made and dropped, one after the other at the same addresses: each has its own name."""
    addresses, count = set(), 3000
    for number in range(count):
        space = {"check": check}
        source = "\n" * (number % 7) + "def made_%d():\n    return check()\n" % number
        exec(compile(source, "file_%d.py" % (number % 11), "exec"), space)
        result = space["made_%d" % number]()
        assert result[0][0] == "made_%d" % number
        addresses.add(id(space["made_%d" % number].__code__))
        del space, result
    assert len(addresses) < count // 2, "no address was used twice: nothing was tested"


def subinterpreters():
    """Another interpreter in this thread: from 3.12 on its own frames are seen; before, the thread state that is
    available without the GIL is that of the thread's first interpreter."""
    try:
        import _xxsubinterpreters as interpreters
    except ImportError:
        import _interpreters as interpreters
    where = os.path.join(FOLDER, "sub.txt")
    source = (
        "import ctypes\nlibrary = ctypes.CDLL(%r)\nlibrary.probe_take.restype = ctypes.c_uint64\n"
        "def inside():\n    return library.probe_take(1)\n"
        "open(%r, 'w').write(str(inside()))" % (LIBRARY, where)
    )
    # An isolated one of 3.12 cannot import ctypes.
    other = interpreters.create(**{"isolated": False} if VERSION[:2] == (3, 12) else {})
    interpreters.run_string(other, source)
    interpreters.destroy(other)
    with guard:
        read_definitions()
    _, frames = stacks[int(open(where).read())]
    names = [codes[code][1] for code, _ in frames]
    if VERSION >= (3, 12):
        assert names[:2] == ["inside", "<module>"], names
    else:
        assert names[0] == "subinterpreters", names


def native():
    take = released.probe_take(0)
    assert take >> 32 and take & 0xFFFFFFFF
    read_definitions()
    kinds = [kind for kind, _ in others]
    assert kinds.count(PYTHON) == 1 and kinds[0] == PYTHON, kinds
    version, start, end = struct.unpack("<IQQ", others[0][1])
    assert version == sys.hexversion and 0 < start < end, (version, start, end)
    modules = {}
    for position, (kind, data) in enumerate(others):
        payload = Payload(data)
        if kind == MODULE:
            payload.u32()
            payload.at += 8
            first, last = struct.unpack_from("<QQ", data, payload.at)
            payload.at += 16
            modules[payload.bytes().decode()] = (first, last)
            payload.bytes()
            payload.end()
        elif kind == NATIVE_STACK:
            number, flags_, count = payload.u32(), payload.u32(), payload.u32()
            addresses = struct.unpack_from("<%dQ" % count, data, payload.at)
            assert number == take >> 32 and flags_ == 0 and count > 5
            for address in addresses:
                assert any(a <= address - 1 < b for a, b in modules.values()), hex(address)
    # The evaluation function is on the stack, and this library is not. A compiler may place nearly all of the function
    # elsewhere; test_mixed_stacks.py checks that its frames are recognized nevertheless.
    assert start == ctypes.cast(ctypes.pythonapi._PyEval_EvalFrameDefault, ctypes.c_void_p).value
    assert end - start < 4096 or any(start <= address < end for address in addresses)
    assert not any("python_probe" in path for path in modules), modules
    (interpreter,) = (path for path, (first, last) in modules.items() if first <= start < last)
    assert os.path.basename(interpreter).startswith(("python3", "libpython3")), interpreter


def main():
    for situation in (
        nested_functions,
        lambdas_and_comprehensions,
        generators,
        coroutines,
        decorators_and_classes,
        over_and_over,
        called_from_c,
        executed_code,
        imported_modules,
        recursion,
        exceptions,
        many_lines,
        threads,
        signals,
        tracing,
        reused_addresses,
        native,
        subinterpreters,
    ):
        situation()
    with open(os.path.join(FOLDER, "lines.txt"), "w") as file:
        file.write("%x\n" % sys.hexversion)
        for first, table, offset, line in lines:
            shown = "-" if line is None else line
            file.write("%d %s %d:%d:%s\n" % (first, table.hex() or "-", offset, offset + 1, shown))
    print("checked %d frames in %d stacks" % (frames_checked, stacks_checked), flush=True)


class AtTheEnd:
    """Takes stacks while the interpreter is torn down."""

    def __del__(self, take=released.probe_take):
        take(0)


def forever():
    while True:
        released.probe_take(0)


if __name__ == "__main__":
    main()
    at_the_end = [AtTheEnd()]
    at_the_end.append(at_the_end)
    for _ in range(2):
        threading.Thread(target=forever, daemon=True).start()
