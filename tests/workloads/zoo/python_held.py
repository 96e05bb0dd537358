"""python_held.py LIBRARY AT CALLS: a daemon thread makes CALLS driver calls. It is held within the last one, after
the interpreter's ATth answer that it is not finalizing, until the interpreter is gone. With AT 0: prints how many
answers there are."""

import ctypes
import sys
import threading

import card

library = ctypes.CDLL(sys.argv[1])
at, calls = map(int, sys.argv[2:])
api = ctypes.pythonapi
runtime = ctypes.addressof(ctypes.c_char.in_dll(api, "_PyRuntime"))
if sys.version_info >= (3, 13):  # _Py_DebugOffsets.runtime_state.finalizing
    finalizing = (ctypes.c_uint64 * 5).from_address(runtime)[4]
else:
    finalizing = 24 if sys.version_info >= (3, 11) else 16
library.prepare(ctypes.c_size_t(runtime + finalizing))
library.allocate.restype = ctypes.c_long
answers = []


def allocates():
    function = ctypes.cast(card._driver.cuMemAlloc_v2, ctypes.c_void_p)
    for left in reversed(range(calls)):
        answers.append(library.allocate(function, ctypes.c_long(0 if left else at)))


def within(generator):
    card.start()
    card.free(card.alloc(512))
    list(generator)


thread = threading.Thread(target=within, args=((allocates() for _ in range(1)),), daemon=True)
thread.start()
if at:
    library.wait_until_held()
    api.Py_AtExit(library.interpreter_is_gone)
else:
    thread.join()
    print(answers[-1])
