"""Loads two libraries one after the other, at the same address if the loader will, and takes native
stacks through each. Prints for each stack its id and the file name of the library it went through, then
how many modules the capture saw end and whether the addresses were the same.
"""

import ctypes
import os
import struct
import sys
import _ctypes

probe = ctypes.CDLL(sys.argv[1])
probe.probe_take.restype = ctypes.c_uint64
probe.probe_definitions.restype = ctypes.c_size_t
probe.probe_definitions.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
take = ctypes.cast(probe.probe_take, ctypes.c_void_p)
modules, stacks, ended = [], {}, []


def read_definitions():
    size = probe.probe_definitions(None, 0)
    buffer = ctypes.create_string_buffer(size)
    probe.probe_definitions(buffer, size)
    at = 0
    while at < size:
        kind, length = struct.unpack_from("<BI", buffer.raw, at)
        data = buffer.raw[at + 5 : at + 5 + length]
        at += 5 + length
        if kind == 132:
            number, _, start, end, name = struct.unpack_from("<IQQQI", data)
            modules.append((number, start, end, data[32 : 32 + name].decode()))
        elif kind == 133:
            ended.append(struct.unpack("<I", data)[0])
        elif kind == 131:
            number, _, count = struct.unpack_from("<III", data)
            alive = [module for module in modules if module[0] not in ended]
            through = set()
            for address in struct.unpack_from("<%dQ" % count, data, 12):
                found = [path for _, a, b, path in alive if a <= address - 1 < b]
                assert len(found) == 1, (hex(address), found)
                through.add(found[0])
            stacks[number] = (through, data[12:])


def through(path):
    handle = _ctypes.dlopen(path, os.RTLD_NOW)
    address = _ctypes.dlsym(handle, "call_back")
    function = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint)(address)
    for _ in range(2):
        number = function(take, 2) >> 32
        read_definitions()
    mine = [name for name in stacks[number][0] if "call_back" in name]
    print(number, *(os.path.basename(name) for name in mine))
    _ctypes.dlclose(handle)
    return address


addresses = set()
for path in sys.argv[2:]:
    addresses.add(through(path))
print("ended", len(ended), "addresses", len(addresses))
