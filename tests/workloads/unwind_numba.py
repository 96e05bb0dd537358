"""Native stacks through code that numba generates: called by the interpreter, calling back, and on numba's own
threads."""

import ctypes

import numpy
from numba import carray, cfunc, njit, objmode, types

here = ctypes.CDLL(None).unwind_check_here
here.restype = None
here.argtypes = []


@njit
def down(depth):
    if depth == 0:
        here()
        return 1
    return down(depth - 1) * 3 % 7 + depth


@njit
def back_to_python(n):
    made = numpy.ones(n)
    with objmode():
        here()
    return made.sum()


@cfunc(types.intc(types.CPointer(types.intc), types.CPointer(types.intc)))
def compare(a, b):
    here()
    return carray(a, 1)[0] - carray(b, 1)[0]


for i in range(400):
    down(i % 20)
    back_to_python(i)
    numbers = (ctypes.c_int * 12)(*((k * 5) % 12 for k in range(12)))
    ctypes.CDLL(None).qsort(numbers, 12, 4, ctypes.c_void_p(compare.address))
    here()
