"""python_ended.py LIBRARY: the remains of a daemon thread that is in native code without the GIL when the
interpreter ends: its state, its frames, their code objects and those objects' tables of lines."""

import ctypes
import sys
import threading

library = ctypes.CDLL(sys.argv[1])
api = ctypes.pythonapi
api.PyGILState_GetThisThreadState.restype = ctypes.c_void_p
library.note.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
library.prepare(api.Py_IsFinalizing if sys.version_info >= (3, 13) else api._Py_IsFinalizing)

# From 3.11 on a frame object has the address of the interpreter's own frame.
FRAME = 24 if sys.version_info >= (3, 11) else None
PREVIOUS = 8 if sys.version_info >= (3, 12) else 48 if sys.version_info >= (3, 11) else 24
CODE = 0 if sys.version_info >= (3, 12) else 32
TYPE, STATE_INTERPRETER, BYTES_LENGTH = 8, 16, 16
noted = threading.Event()


def note(what, address):
    library.note(what.encode(), address)


def waits():
    frame = sys._getframe()
    while frame is not None:
        address = id(frame) if FRAME is None else ctypes.c_size_t.from_address(id(frame) + FRAME).value
        note("frame.previous", address + PREVIOUS)
        note("frame.code", address + CODE)
        note("code.type", id(frame.f_code) + TYPE)
        table = frame.f_code.co_linetable if sys.version_info >= (3, 10) else frame.f_code.co_lnotab
        note("table.length", id(table) + BYTES_LENGTH)
        frame = frame.f_back
    note("state.interpreter", api.PyGILState_GetThisThreadState() + STATE_INTERPRETER)
    del frame, table
    noted.set()
    library.wait_for_ever()


def generates():
    yield waits()


class Runs:
    def __init__(self):
        exec(compile("list(generates())", "made while running", "exec"))


threading.Thread(target=Runs, daemon=True).start()
noted.wait()
api.Py_AtExit(library.interpreter_is_gone)
