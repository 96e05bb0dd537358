"""Runs in each CPython: prints the interpreter's lines of all code in each Nth file of its standard library (argument N), in the form
that the example decode_lines reads.

Every second offset of every code object is looked up with PyCode_Addr2Line; where there is co_lines (3.10 and newer),
that must agree.
"""

import ctypes
import itertools
import os
import sys
import types
import warnings

addr2line = ctypes.pythonapi.PyCode_Addr2Line
addr2line.argtypes = [ctypes.py_object, ctypes.c_int]

warnings.simplefilter("ignore")
SKIPPED = {"site-packages", "test", "tests", "idle_test", "lib2to3", "__pycache__"}


def sources(folder):
    for path, folders, files in os.walk(folder):
        folders[:] = sorted(set(folders) - SKIPPED)
        for name in sorted(files):
            if name.endswith(".py"):
                yield os.path.join(path, name)


def code_objects(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from code_objects(constant)


def ranges(code):
    start, previous = -2, addr2line(code, -2)
    for offset in range(0, len(code.co_code), 2):
        line = addr2line(code, offset)
        if line != previous:
            yield start, offset, previous
            start, previous = offset, line
    yield start, len(code.co_code), previous


def by_co_lines(code):
    return [
        (offset, line) for start, end, line in code.co_lines() for offset in range(start, end, 2)
    ]


def main():
    out = sys.stdout
    out.write("%x\n" % sys.hexversion)
    for path in itertools.islice(sources(os.path.dirname(os.__file__)), 0, None, int(sys.argv[1])):
        with open(path, "rb") as file:
            source = file.read()
        try:
            module = compile(source, path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError):  # files that are wrong on purpose
            continue
        for code in code_objects(module):
            known = list(ranges(code))
            if hasattr(code, "co_lines"):
                expanded = [
                    (offset, None if line < 0 else line)
                    for start, end, line in known
                    for offset in range(start, end, 2)
                    if offset >= 0
                ]
                assert expanded == by_co_lines(code), code
                table = code.co_linetable
            else:
                table = code.co_lnotab
            shown = " ".join("%d:%d:%s" % (a, b, "-" if l < 0 else l) for a, b, l in known)
            out.write("%d %s %s\n" % (code.co_firstlineno, table.hex() or "-", shown))


main()
