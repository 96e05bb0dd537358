"""Prints the simulated driver's count of calls."""

from ctypes import CDLL, POINTER, Structure, byref, c_int, c_size_t, c_uint64, c_ubyte, c_uint32, c_void_p


class Properties(Structure):
    _fields_ = [
        ("type", c_uint32), ("handle_types", c_uint32), ("location_type", c_uint32), ("device", c_int), ("win32", c_void_p),
        ("flags", c_ubyte * 8),
    ]  # fmt: skip


driver = CDLL("libcuda.so.1")
context, handle, other = c_void_p(), c_uint64(), c_uint64()
properties = Properties(type=1, location_type=1)
driver.cuMemCreate.argtypes = [POINTER(c_uint64), c_size_t, POINTER(Properties), c_uint64]
driver.cuMemRelease.argtypes = [c_uint64]
assert driver.cuInit(0) == 0
assert driver.cuDevicePrimaryCtxRetain(byref(context), 0) == 0
assert driver.cuMemCreate(byref(handle), 2 << 20, byref(properties), 0) == 0
assert driver.cuMemCreate(byref(other), 2 << 20, byref(properties), 0) == 0
assert driver.cuMemCreate(byref(c_uint64()), 1 << 46, byref(properties), 0) == 2
assert driver.cuMemRelease(handle) == 0
assert driver.cuMemRelease(0x1234) != 0
for name in ("cuMemCreate", "cuMemRelease"):
    succeeded, failed = c_uint64(), c_uint64()
    assert driver.gpumem_sim_calls(name.encode(), byref(succeeded), byref(failed)) == 0
    print(name, succeeded.value, failed.value)
print("unknown", driver.gpumem_sim_calls(b"cuMemAlloc", None, None))
