"""LIBRARY: compares which variables a walk says that functions read again with an analysis of the same instructions by
`dis`, and with what functions really read. Prints the number of comparisons, and of variables that are not read again."""

import asyncio
import collections
import contextlib
import ctypes
import difflib
import dis
import fractions
import functools
import importlib
import json
import pprint
import random
import sys
import textwrap
import tokenize
import types

VERSION = sys.version_info[:2]
MODULES = """argparse asyncio.base_events asyncio.locks asyncio.tasks calendar codecs configparser contextlib csv dataclasses
functools inspect json.decoder json.encoder pickle plistlib queue shutil statistics subprocess tarfile tempfile textwrap
threading tokenize traceback typing unittest.case xml.dom.minidom zipfile""".split()
FUNCTIONS = 150
PLACES = 4000
# In these, each instruction is looked at: what random ones rarely meet.
RARE = """
def shadowed(x, rows):
    rows = [x for x in rows]
    return {x: rows for x in x}

def in_class(x):
    def inner():
        nonlocal x
        del x
    return [inner for _ in range(3) if (y := x)], y

def deleted(x, y):
    try:
        del x
    except NameError:
        x = y
    finally:
        y = x
    with y as (x, y):
        return x

def swapped(x, y):
    x, y = y, x
    for x, *y in y:
        if x:
            continue
        break
    else:
        return x
    return lambda: y
"""
BY_NAME = {"locals", "vars", "eval", "exec", "dir", "breakpoint"}
FRAMES = {"_getframe", "currentframe", "f_locals", "builtins", "__builtins__"}
ENDS = {"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"}


class Place(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint64), ("offset", ctypes.c_int64), ("variable", ctypes.c_uint64)]


def answers(library, places):
    """What the walk says of (code, offset, variable)."""
    given = (Place * len(places))(*((id(code), offset, variable) for code, offset, variable in places))
    out = (ctypes.c_int8 * len(places))(*[-2] * len(places))
    library.find_holders_reads(given, ctypes.c_size_t(len(places)), out)
    assert -2 not in out
    return list(out)


def names(instruction):
    """The variables that an instruction reads, and those that it stores or deletes."""
    name, of = instruction.opname, instruction.argval
    if name == "STORE_FAST_LOAD_FAST":
        return {of[1]}, {of[0]}
    if "_FAST" not in name:
        return set(), set()
    of = set(of if isinstance(of, tuple) else [of])
    return (of, set()) if name.startswith("LOAD") else (set(), of)


class Analysis:
    """The variables that are live at each instruction: a fixed point, from the end backwards."""

    def __init__(self, code):
        self.all = [one for one in dis.get_instructions(code) if one.opname not in ("CACHE", "EXTENDED_ARG")]
        self.offsets = [one.offset for one in self.all]
        starts = {}
        begin = 0
        for one in dis.get_instructions(code):
            begin = one.offset if begin is None else begin
            if one.opname != "EXTENDED_ARG":
                starts[begin] = one.offset
                begin = None
        self.starts = starts
        self.next = dict(zip(self.offsets, self.offsets[1:]))
        self.handlers = collections.defaultdict(set)
        self.returns = [self.next[one.offset] for one in self.all if one.opname == "CALL_FINALLY"]
        if VERSION >= (3, 11):
            for entry in dis._parse_exception_table(code):
                for offset in range(entry.start, entry.end, 2):
                    self.handlers[offset].add(starts[entry.target])
        else:
            self.follow_blocks()
        live = {offset: set() for offset in self.offsets}
        changed = True
        while changed:
            changed = False
            for one in reversed(self.all):
                reads, stores = names(one)
                at = self.of(live, self.after(one)) - stores | self.of(live, self.handlers[one.offset])
                at |= set() if stores & reads else reads
                changed |= at != live[one.offset]
                live[one.offset] = at
        self.live = live

    def of(self, live, offsets):
        return set().union(*(live[offset] for offset in offsets))

    def after(self, one):
        name, after = one.opname, set()
        if name not in ENDS and not name.startswith(("JUMP_FORWARD", "JUMP_ABSOLUTE", "JUMP_BACKWARD")):
            after.add(self.next[one.offset])
        is_block = name.startswith("SETUP_")
        if one.opcode in dis.hasjrel + dis.hasjabs and not is_block and name != "END_ASYNC_FOR":
            after.add(self.starts[one.argval])
        if name == "END_FINALLY":
            after.update(self.returns)
        return after

    def follow_blocks(self):
        at = {one.offset: one for one in self.all}
        left, seen = [(self.offsets[0], ())], set()
        while left:
            offset, blocks = left.pop()
            if offset in seen:
                continue
            seen.add(offset)
            one = at[offset]
            self.handlers[offset].update(blocks[-1:])
            inside = blocks
            if one.opname.startswith("SETUP_") and one.opname != "SETUP_ANNOTATIONS":
                handler = self.starts[one.argval]
                left.append((handler, blocks))
                inside = (*blocks, handler)
            elif one.opname == "POP_BLOCK":
                inside = blocks[:-1]
            left += [(after, inside) for after in self.after(one)]

    def reads(self, one):
        """The variables that are read again, from a frame on that is at this instruction."""
        at = self.after(one) | self.handlers[one.offset] | self.handlers[one.offset - 2]
        return names(one)[0] | self.of(self.live, at)


@functools.lru_cache(None)
def instructions(code):
    return {one.offset: one for one in dis.get_instructions(code)}


def functions(code):
    """The code of all functions in the code of a module."""
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            if const.co_flags & 3 == 3:
                yield const
            yield from functions(const)


def plain(code):
    """The numbers of the variables that no closure has."""
    return [number for number, name in enumerate(code.co_varnames) if name not in code.co_cellvars]


@functools.lru_cache(None)
def is_by_name(code):
    of_globals = {one.argval for one in dis.get_instructions(code) if one.opname == "LOAD_GLOBAL"}
    return bool(of_globals & BY_NAME or set(code.co_names) & FRAMES)


def compare_analysis(library, rng):
    """In the functions of the standard library, at random instructions."""
    codes = []
    for name in MODULES:
        module = importlib.import_module(name)
        with open(module.__file__, "rb") as file:
            codes += functions(compile(file.read(), module.__file__, "exec"))
    count = unread = 0
    samples = [(code, 8) for code in rng.sample(codes, FUNCTIONS)]
    samples += [(code, len(instructions(code))) for code in functions(compile(RARE, "rare", "exec"))]
    for code, most in samples:
        analysis = Analysis(code)
        some = rng.sample(analysis.all, min(most, len(analysis.all)))
        places = [(one, variable) for one in some for variable in plain(code)]
        said = answers(library, [(code, one.offset, variable) for one, variable in places])
        for (one, variable), answer in zip(places, said):
            wanted = -1 if is_by_name(code) else int(code.co_varnames[variable] in analysis.reads(one))
            assert answer == wanted, (code, one, code.co_varnames[variable], answer, wanted)
            count += 1
            unread += answer == 0
    return count, unread


def run_some():
    """Functions of the standard library with loops, handlers, generators and coroutines."""
    json.decoder.scanner.c_make_scanner = None
    decoder = json.decoder.JSONDecoder()
    decoder.scan_once = json.scanner.py_make_scanner(decoder)
    decoder.parse_string = json.decoder.py_scanstring
    text = '{"a": [1, 2.5, {"b": null, "c\\\\u0041": "d"}], "e": [true, false, []]}'
    value = decoder.decode(text)
    for wrong in ('{"a"', "[1,", '{"a": }', '"\\\\x"'):
        with contextlib.suppress(ValueError):
            decoder.decode(wrong)
    "".join(json.encoder._make_iterencode({}, str, str, "  ", repr, ":", ",", True, True, False)(value, 0))
    pprint.pformat([value] * 2, width=20)
    list(difflib.unified_diff(text.split(","), text.upper().split(","), "one", "two"))
    textwrap.wrap("a few words " * 5, 20)
    fractions.Fraction("3/7").limit_denominator(5)
    list(tokenize.generate_tokens(iter(["def f(a):\n", "  return [a, 'b']\n"]).__next__))

    @contextlib.contextmanager
    def managed(value):
        try:
            yield value
        finally:
            print(end="")

    async def stream(count):
        for number in range(count):
            await asyncio.sleep(0)
            yield number

    async def consume(queue):
        found = []
        try:
            async for number in stream(3):
                async with asyncio.Lock():
                    await queue.put(number)
                    found = [number for number in range(number)]
            while True:
                found.append(await asyncio.wait_for(queue.get(), None))
        except asyncio.CancelledError:
            return found
        finally:
            with managed(found) as found:
                await asyncio.sleep(0)

    async def main():
        queue = asyncio.Queue(8)
        tasks = [asyncio.ensure_future(consume(queue)) for _ in range(3)]
        for _ in range(40):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    loop.close()


def compare_runs(library, rng):
    """What functions read after each instruction that they ran."""
    runs = {}

    def trace(frame, event, _):
        frame.f_trace_opcodes = True
        runs.setdefault(id(frame), (frame, frame.f_code, []))
        if event == "opcode":
            runs[id(frame)][2].append(frame.f_lasti)
        return trace

    # Up to 3.12.1, a trace has opcodes only if a frame had wanted them before.
    sys._getframe().f_trace_opcodes = True
    sys.settrace(trace)
    try:
        run_some()
    finally:
        sys.settrace(None)
    later = collections.defaultdict(set)
    for _, code, offsets in runs.values():
        at = instructions(code)
        reads = set()
        for offset in reversed(offsets):
            own, stores = names(at[offset])
            later[code, offset] |= reads | own
            reads = reads - stores | (set() if stores & own else own)
    places = [
        (code, offset, variable) for code, offset in later for variable in plain(code)
        if code.co_flags & 3 == 3 and not is_by_name(code)
    ]  # fmt: skip
    places = rng.sample(places, min(PLACES, len(places)))
    said = answers(library, places)
    for (code, offset, variable), answer in zip(places, said):
        is_read = code.co_varnames[variable] in later[code, offset]
        assert answer in ((1,) if is_read else (0, 1)), (code, offset, code.co_varnames[variable], answer)
    return len(places), said.count(0)


def main():
    library, rng = ctypes.CDLL(sys.argv[1]), random.Random(VERSION[1])
    print("analysis", *compare_analysis(library, rng), "runs", *compare_runs(library, rng))


if __name__ == "__main__":
    main()
