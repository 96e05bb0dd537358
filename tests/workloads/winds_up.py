"""Import this in a program that may end soon after a backward().

PyTorch's backward threads let go of Python objects a moment after backward() has returned, and abort the process
("terminate called without an active exception") if the interpreter ends meanwhile: CPython before 3.14, with or without
gpumem. So the interpreter's end begins a moment later."""

import atexit
import time

atexit.register(time.sleep, 0.2)
