"""Import this in a program that returns soon after a backward().

PyTorch 2.15 gives each backward() a copy of the caller's contextvars. The last thread that holds the graph drops the copy
with it, and takes the GIL for that: often autograd's own thread, after backward() has returned. If the interpreter has begun
to finalize by then, CPython before 3.14 ends that thread by pthread_exit inside a C++ destructor, and the process aborts
("terminate called without an active exception"), with or without gpumem: docs/measured/zoo.md.

So the interpreter's end begins once all these copies are gone. The program still ends by returning, and its interpreter
finalizes. A PyTorch that makes no such copies has nothing to wait for."""

import atexit
import time
import weakref

import torch

_copies = []
_stash = getattr(torch._C, "_stash_obj_in_tls", None)


def _living():
    return [copy for copy in _copies if copy() is not None]


def _noted(key, copy):
    _copies[:] = [*_living(), weakref.ref(copy)]
    return _stash(key, copy)


def _await_autograd():
    # The weak references have no callback: it would run on autograd's thread, and need the GIL after the copy.
    while _living():
        time.sleep(0.001)


if _stash is not None:
    torch._C._stash_obj_in_tls = _noted
    atexit.register(_await_autograd)
