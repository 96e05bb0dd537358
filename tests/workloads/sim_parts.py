"""Checks of the simulated driver's arrays and managed memory in many parts, green contexts and functions from before
CUDA 3.2; `sim_parts.py NAME` runs one of them."""

import ctypes
import sys
from ctypes import byref, c_int, c_size_t, c_uint32, c_uint64, c_void_p

from sim_cuda import *  # noqa: F403  (a small vocabulary, all of it used)

INVALID_RESOURCE_TYPE = 914


def sparse():
    """Sparse arrays and those with deferred mapping are not supported."""
    start()
    place, ignored = c_uint64(), ctypes.create_string_buffer(48)
    for flag in (0x40, 0x80):
        shape = byref(ArrayShape(300, 256, 0, 0x20, 1, flag))
        assert code("cuArray3DCreate_v2", byref(place), shape) == NOT_SUPPORTED
        assert code("cuMipmappedArrayCreate", byref(place), shape, 2) == NOT_SUPPORTED
    assert code("cuMemMapArrayAsync", None, 0, 0) == NOT_SUPPORTED
    assert card() == (0, 0)
    dense = out("cuArray3DCreate_v2", byref(ArrayShape(300, 256, 0, 0x20, 1, 0)))
    assert code("cuArrayGetMemoryRequirements", ignored, dense, 0) == INVALID_VALUE
    assert code("cuArrayGetSparseProperties", ignored, dense) == INVALID_VALUE
    must("cuArrayDestroy", dense)


def batches():
    """Managed memory, many ranges at once."""
    start()
    pointers = (c_uint64 * 3)(*(out("cuMemAllocManaged", 4 * MIB, 1) for _ in range(3)))
    sizes = (c_size_t * 3)(*[4 * MIB] * 3)
    places = (Location * 2)(Location(2, 0), Location(1, 0))
    first = 64 * MIB  # the additional memory of a context for the first managed memory on the device
    prefetch, discard = "cuMemPrefetchBatchAsync", "cuMemDiscardBatchAsync"
    assert card() == (12 * MIB, 0)
    firsts = (c_size_t * 2)(0, 2)
    must(prefetch, pointers, sizes, 3, places, firsts, 2, 0, 2)
    assert card() == (12 * MIB, first + 4 * MIB), "two at the host, one here"
    must(discard, pointers, sizes, 3, 0, 2)
    assert card() == (12 * MIB, first + 4 * MIB)
    must("cuMemDiscardAndPrefetchBatchAsync_ptsz", pointers, sizes, 2, byref(places[1]), firsts, 1, 0, 2)
    assert card() == (12 * MIB, first + 12 * MIB)
    wrong = (c_uint64 * 3)(pointers[0], pointers[1], 12345)
    assert code(prefetch, wrong, sizes, 3, places, firsts, 2, 0, 2) == INVALID_VALUE
    assert code(discard, wrong, sizes, 3, 0, 2) == INVALID_VALUE
    assert code(prefetch, pointers, sizes, 3, places, (c_size_t * 2)(1, 2), 2, 0, 2) == INVALID_VALUE
    assert code(prefetch, pointers, sizes, 3, places, (c_size_t * 2)(0, 3), 2, 0, 2) == INVALID_VALUE
    assert code(prefetch, pointers, sizes, 3, places, firsts, 2, 1, 2) == INVALID_VALUE
    assert code(prefetch, pointers, sizes, 0, places, firsts, 0, 0, 2) == INVALID_VALUE
    for legacy in (0, 1):
        assert code(discard, pointers, sizes, 3, 0, legacy) == INVALID_VALUE
    assert card() == (12 * MIB, first + 12 * MIB), "failed calls move nothing"
    values = (c_int * 2)(7, 7)
    data = (c_void_p * 2)(*(ctypes.addressof(values) + 4 * n for n in range(2)))
    asked = (c_uint32 * 2)(1, 2)
    must("cuMemRangeGetAttributes", data, (c_size_t * 2)(4, 4), asked, 2, pointers[0], 4 * MIB)
    assert list(values) == [0, -2]
    assert code("cuMemRangeGetAttributes", data, (c_size_t * 2)(4, 4), asked, 2, 12345, 8) == INVALID_VALUE
    for pointer in pointers:
        must("cuMemFree_v2", pointer)


def planes():
    """The planes of an array are arrays over its bytes."""
    start()
    nv12, planar, packed = 0xB0, 0x59, 0xA5
    array = out("cuArray3DCreate_v2", byref(ArrayShape(64, 32, 0, nv12, 3, 0)))
    assert now("array") == 64 * 32 * 3 // 2
    shape = ArrayShape()
    found = []
    for index, expected in enumerate([(64, 32, 1, 1), (32, 16, 1, 2)]):
        plane = out("cuArrayGetPlane", array, index)
        must("cuArray3DGetDescriptor_v2", byref(shape), plane)
        assert (shape.width, shape.height, shape.format, shape.channels) == expected
        assert out("cuArrayGetPlane", array, index) == plane
        must("cuMemcpyHtoA_v2", plane, 0, bytes([index + 1]) * 64, 64)
        found.append(plane)
    back = ctypes.create_string_buffer(64)
    must("cuMemcpyAtoH_v2", back, found[0], 0, 64)
    assert back.raw == b"\1" * 64
    must("cuMemcpyAtoH_v2", back, found[1], 0, 64)
    assert back.raw == b"\2" * 64
    place = c_uint64()
    assert code("cuArrayGetPlane", byref(place), array, 2) == INVALID_VALUE
    assert code("cuArrayGetPlane", byref(place), found[0], 0) == INVALID_VALUE
    assert code("cuArrayDestroy", found[0]) == INVALID_HANDLE, "the array's"
    must("cuArrayDestroy", array)
    assert code("cuArray3DGetDescriptor_v2", byref(shape), found[0]) == INVALID_HANDLE
    three = out("cuArray3DCreate_v2", byref(ArrayShape(64, 32, 0, planar, 3, 0)))
    must("cuArray3DGetDescriptor_v2", byref(shape), out("cuArrayGetPlane", three, 2))
    assert (shape.width, shape.height, shape.format, shape.channels) == (32, 16, 1, 1)
    one = out("cuArray3DCreate_v2", byref(ArrayShape(64, 32, 0, packed, 2, 0)))
    assert code("cuArrayGetPlane", byref(place), one, 0) == INVALID_VALUE
    for handle in (three, one):
        must("cuArrayDestroy", handle)
    assert card() == (0, 0)


class Resource(ctypes.Structure):
    """CUdevResource, with its multiprocessors."""

    _fields_ = [
        ("kind", c_uint32),
        ("padding", ctypes.c_ubyte * 92),
        ("count", c_uint32),
        ("least", c_uint32),
        ("step", c_uint32),
        ("flags", c_uint32),
        ("rest", c_uint32 * 6),
        ("next", c_uint64),
    ]


def green():
    """Green contexts: they live on the primary context and cost nothing more."""
    must("cuInit", 0)
    place = c_uint64()
    everything, groups, left = Resource(), (Resource * 4)(), Resource()
    must("cuDeviceGetDevResource", 0, byref(everything), 1)
    assert (everything.count, everything.step) == (132, 8)
    assert code("cuDeviceGetDevResource", 0, byref(everything), 5) == INVALID_RESOURCE_TYPE
    assert code("cuDeviceGetDevResource", 9, byref(everything), 1) == INVALID_DEVICE
    count = c_uint32(0)
    must("cuDevSmResourceSplitByCount", None, byref(count), byref(everything), None, 0, 30)
    assert count.value == 4
    count.value = 3
    must("cuDevSmResourceSplitByCount", groups, byref(count), byref(everything), byref(left), 0, 30)
    assert (count.value, groups[2].count, left.count) == (3, 32, 36)
    assert code("cuDevSmResourceSplitByCount", groups, byref(count), byref(Resource()), None, 0, 8) == (
        INVALID_RESOURCE_TYPE
    )
    descriptor = out("cuDevResourceGenerateDesc", groups, 1)
    assert code("cuDevResourceGenerateDesc", byref(place), groups, 0) == INVALID_VALUE
    assert code("cuDevResourceGenerateDesc", byref(place), byref(Resource()), 1) == INVALID_RESOURCE_TYPE
    assert code("cuGreenCtxCreate", byref(place), descriptor, 0, 0) == INVALID_VALUE
    assert code("cuGreenCtxCreate", byref(place), 12345, 0, 1) == INVALID_VALUE
    assert now("physical") == 0

    one = out("cuGreenCtxCreate", descriptor, 0, 1)
    assert now("physical") == books()["context_bytes"], "the primary context"
    two = out("cuGreenCtxCreate", descriptor, 0, 1)
    assert now("physical") == books()["context_bytes"]
    context = out("cuCtxFromGreenCtx", one)
    assert context == out("cuDevicePrimaryCtxRetain", 0)
    must("cuDevicePrimaryCtxRelease_v2", 0)
    must("cuCtxSetCurrent", context)
    pointer = out("cuMemAlloc_v2", 1000)
    ids = [c_uint64(), c_uint64()]
    for handle, number in zip((one, two), ids):
        must("cuGreenCtxGetId", handle, byref(number))
    assert ids[0].value != ids[1].value
    found = Resource()
    must("cuGreenCtxGetDevResource", one, byref(found), 1)
    assert found.count == 32
    must("cuCtxGetDevResource", context, byref(found), 1)
    assert found.count == 132
    assert code("cuGreenCtxStreamCreate", byref(place), one, 0, 0) == INVALID_VALUE
    stream = out("cuGreenCtxStreamCreate", one, 1, 0)
    plain = out("cuStreamCreate", 0)
    for handle, made_in in ((stream, one), (plain, 0)):
        must("cuStreamGetGreenCtx", handle, byref(place))
        assert place.value == made_in
    event = out("cuEventCreate", 0)
    must("cuGreenCtxRecordEvent", one, event)
    must("cuGreenCtxWaitEvent", two, event)
    assert code("cuGreenCtxWaitEvent", two, 12345) == INVALID_HANDLE
    must("cuStreamDestroy_v2", stream)

    must("cuGreenCtxDestroy", one)
    for function in ("cuGreenCtxDestroy", "cuGreenCtxGetId"):
        assert code(function, one, byref(place)) == INVALID_CONTEXT
    assert read_back(pointer, 1) == b"\0" and now("device") == 1000
    must("cuGreenCtxDestroy", two)
    assert (now("device"), now("physical")) == (0, 0), "nothing holds the primary context"


def old():
    """The forms of before CUDA 3.2: there, but of no use with 64-bit addresses."""
    place = c_uint64(77)
    assert code("cuMemAlloc", byref(place), 100) == NOT_INITIALIZED
    start()
    for name in ("cuMemAlloc", "cuMemAllocPitch", "cuMemFree", "cuMemGetInfo", "cuMemGetAddressRange",
                 "cuMemHostGetDevicePointer", "cuArrayCreate", "cuArray3DCreate",
                 "cuArrayGetDescriptor", "cuArray3DGetDescriptor"):
        assert code(name, byref(place), byref(place), byref(place), 4, 4) == INVALID_CONTEXT, name
    assert place.value == 77 and card() == (0, 0)
    total = c_uint32()
    must("cuDeviceTotalMem", byref(total), 0)
    assert total.value == (1 << 32) - 1
    # A size of 32 bits, whatever lies above them in the register.
    pinned = out("cuMemAllocHost", (1 << 40) + 1000)
    assert now("host") == 1000
    must("cuMemFreeHost", pinned)
    memory = ctypes.create_string_buffer(8192)
    must("cuMemHostRegister", memory, 4096, 0)
    assert now("registered") == 4096
    must("cuMemHostUnregister", memory)
    # Contexts that are shared by counting: the last hold ends them, and only where they are current.
    own = out("cuCtxCreate", 0, 0)
    assert out("cuCtxAttach", 0) == own
    out("cuMemAlloc_v2", 1000)
    must("cuCtxDetach", own)
    assert now("device") == 1000
    must("cuCtxSetCurrent", 0)
    assert code("cuCtxDetach", own) == INVALID_CONTEXT
    must("cuCtxSetCurrent", own)
    must("cuCtxDetach", own)
    assert now("device") == 0


if __name__ == "__main__":
    globals()[sys.argv[1]]()
