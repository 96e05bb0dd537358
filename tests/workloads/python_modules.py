"""Runs in each CPython, without PyTorch: functions with the names and positions of those through which PyTorch calls
modules. The modules that the recorder finds on each stack are compared with the program's own list.

Arguments: the probe library, "wrapped" (as PyTorch from 2.0 on calls modules) or "plain" (up to 1.13). Prints
"checked N calls in M stacks of K modules"."""

import ctypes
import struct
import sys
import threading

LIBRARY, WAY = sys.argv[1:3]
PY_STACK, NN_MODULE = 130, 143

probe = ctypes.PyDLL(LIBRARY)
probe.probe_take.restype = ctypes.c_uint64
probe.probe_definitions.restype = ctypes.c_size_t
probe.probe_definitions.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

SOURCE = {
    "wrapped": """
class Module:
    def _wrapped_call_impl(self, *args, **kwargs):
        return self._call_impl(*args, **kwargs)

    def _call_impl(self, *args, **kwargs):
        def inner():
            return self.forward(*args, **kwargs)
        return inner()

    __call__ = _wrapped_call_impl
""",
    "plain": """
class Module:
    def _call_impl(self, *input, **kwargs):
        forward_call = self.forward
        return forward_call(*input, **kwargs)

    __call__ = _call_impl
""",
}
here = {}
exec(compile(SOURCE[WAY], "/env/site-packages/torch/nn/modules/module.py", "exec"), here)
Module = here["Module"]

stacks, modules = {}, {}
lock, calls = threading.Lock(), [0]
working = threading.local()


def read_definitions():
    size = probe.probe_definitions(None, 0)
    buffer = ctypes.create_string_buffer(size)
    assert probe.probe_definitions(buffer, size) == size
    at = 0
    while at < size:
        kind, length = struct.unpack_from("<BI", buffer.raw, at)
        data = buffer.raw[at + 5 : at + 5 + length]
        at += 5 + length
        if kind == NN_MODULE:
            number, address, name = struct.unpack_from("<IQI", data)
            modules[number] = (address, data[16 : 16 + name].decode())
        elif kind == PY_STACK:
            number, flags, frames = struct.unpack_from("<III", data)
            found = []
            if flags & 2:
                (count,) = struct.unpack_from("<I", data, 12 + 8 * frames)
                words = struct.unpack_from("<%dI" % (2 * count), data, 16 + 8 * frames)
                assert list(words[::2]) == sorted(set(words[::2])) and max(words[::2]) < frames
                found = [modules[module] for module in words[1::2]]
            stacks[number] = found


def check():
    """The stack of this moment names the modules that are being called, the newest first."""
    with lock:
        number = probe.probe_take(1) & 0xFFFFFFFF
        assert number
        read_definitions()
        expected = [(id(module), type(module).__name__) for module in reversed(working.stack)]
        assert stacks[number] == expected, (stacks[number], expected)
        calls[0] += 1
    return number


class Known(Module):
    def __init__(self, *parts):
        self.parts = parts

    def __call__(self, *args):
        working.stack.append(self)
        try:
            return Module.__call__(self, *args)
        finally:
            working.stack.pop()

    def forward(self, times=1):
        for _ in range(times):
            check()
        for part in self.parts:
            part(times)
        check()


class Block(Known):
    pass


class Linear(Known):
    pass


class Net(Known):
    pass


def run(net):
    working.stack = []
    check()
    for times in (1, 2, 1):
        net(times)
        net.forward()  # not a call of the module: the caller's module is current


def same_address():
    """Objects that have the same address one after the other are distinguished by their types."""
    working.stack = []
    kinds = [type("Kind%d" % number, (Known,), {}) for number in range(2)]
    at = {}
    for number in range(200):
        module = kinds[number % 2]()
        module()
        at.setdefault(id(module), set()).add(number % 2)
        del module
    assert {0, 1} in at.values(), "no address was used again"


nets = [Net(*[Block(Linear(), Linear()) for _ in range(4)]) for _ in range(2)]
threads = [threading.Thread(target=run, args=(net,)) for net in nets]
for net in nets:
    run(net)
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
same_address()
print("checked", calls[0], "calls in", len(stacks), "stacks of", len(modules), "modules")
