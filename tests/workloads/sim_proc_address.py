"""Compares the answers of cuGetProcAddress with lists of real runtimes' lookups: each line `NAME ver=V flags=F ->
SYMBOL` must resolve to the exported SYMBOL."""

import ctypes
import re
import sys
from ctypes import byref, c_int, c_uint64, c_void_p

from sim_cuda import INVALID_VALUE, LIBRARY, NOT_FOUND, SUCCESS

LINE = re.compile(r"(\w*) ver=(\d+) flags=(\d) -> (\w+)")


def look_up(name, version, flags, with_status=True):
    """The result code, the address, the status."""
    address, status = c_void_p(77), c_int(77)
    code = LIBRARY.cuGetProcAddress_v2(
        name.encode(),
        byref(address),
        c_int(version),
        c_uint64(flags),
        byref(status) if with_status else None,
    )
    return code, address.value, status.value


def exported(symbol):
    """The address of an export."""
    return ctypes.cast(getattr(LIBRARY, symbol), c_void_p).value


def lists(paths):
    """Every line of every list."""
    resolved = missing = 0
    for path in paths:
        with open(path, encoding="ascii") as lines:
            for line in lines:
                name, version, flags, symbol = LINE.match(line).groups()
                code, address, status = look_up(name, int(version), int(flags))
                assert code == SUCCESS, line
                if symbol == "NOT_FOUND":
                    # Recorded on a driver with less: graphics and the profiler. Only the empty
                    # name is unknown to any driver.
                    assert (status == 1 and address is None) == (name == ""), line
                    missing += 1
                else:
                    assert (status, address) == (0, exported(symbol)), line
                    resolved += 1
    return resolved, missing


def rules():
    """What happens to names and versions that do not fit."""
    assert look_up("", 0, 0) == (SUCCESS, None, 1)
    assert look_up("", 0, 0, with_status=False)[:2] == (NOT_FOUND, None)
    assert look_up("cuMemAllocAsync", 11010, 0) == (SUCCESS, None, 2)
    assert look_up("cuMemAllocAsync", 11010, 0, with_status=False)[0] == NOT_FOUND
    assert look_up("cuMemAlloc_v2", 13020, 0) == (SUCCESS, None, 1)
    assert look_up("cuMemAlloc", 13020, 3)[0] == INVALID_VALUE
    for flags in (0, 1):
        assert look_up("cuMemFreeAsync", 13020, flags)[1] == exported("cuMemFreeAsync")
    assert look_up("cuMemFreeAsync", 13020, 2)[1] == exported("cuMemFreeAsync_ptsz")
    assert look_up("cuMemAlloc", 13020, 2)[1] == exported("cuMemAlloc_v2")
    for version, symbol in ((11030, "cuGetProcAddress"), (12000, "cuGetProcAddress_v2")):
        assert look_up("cuGetProcAddress", version, 0)[1] == exported(symbol)
    # The first form has no status: a miss is an error.
    place = c_void_p()
    first = LIBRARY.cuGetProcAddress
    assert first(b"cuNothing", byref(place), 13020, c_uint64(0)) == NOT_FOUND
    assert first(b"cuInit", byref(place), 13020, c_uint64(0)) == SUCCESS
    assert place.value == exported("cuInit")


if __name__ == "__main__":
    rules()
    print("resolved {} missing {}".format(*lists(sys.argv[1:])))
