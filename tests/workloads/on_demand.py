"""Allocates as many MiB as each line of its input states, until the input ends. Answers each with the total that it
holds. The line `step` ends a step, `card` makes the recorder read the card."""

import ctypes
import sys

driver = ctypes.CDLL("libcuda.so.1")


def check(code):
    assert code == 0, code


def allocate(mib):
    address = ctypes.c_uint64()
    check(driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(mib << 20)))


device, context, held = ctypes.c_int(), ctypes.c_void_p(), 0
check(driver.cuInit(0))
check(driver.cuDeviceGet(ctypes.byref(device), 0))
check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
check(driver.cuCtxSetCurrent(context))
for line in sys.stdin:
    if line.strip() == "step":
        check(ctypes.CDLL(None).gpumem_step())
    elif line.strip() == "card":
        check(ctypes.CDLL(None).gpumem_read_card(-1))
    else:
        allocate(int(line))
        held += int(line)
    print(held, flush=True)
