"""Checks of the simulated driver's arrays and managed memory in many parts, green contexts and forms of
before CUDA 3.2; `sim_parts.py NAME` runs one of them."""

import ctypes
import sys
from ctypes import byref, c_int, c_size_t, c_uint32, c_uint64, c_void_p

from sim_cuda import *  # noqa: F403  (a small vocabulary, all of it used)

TILE_POOL = 1
INVALID_RESOURCE_TYPE = 914


class MapInfo(ctypes.Structure):
    """CUarrayMapInfo."""

    _fields_ = [
        ("resource_kind", c_uint32),
        ("resource", c_uint64),
        ("part_kind", c_uint32),
        ("part", c_uint64 * 4),
        ("operation", c_uint32),
        ("memory_kind", c_uint32),
        ("memory", c_uint64),
        ("offset", c_uint64),
        ("devices", c_uint32),
        ("flags", c_uint32),
        ("reserved", c_uint32 * 2),
    ]

    @classmethod
    def level(cls, array, memory, offset, at, extent, mipmapped=0, level=0):
        words = (c_uint32 * 8)(level, 0, *at, *extent)
        part = (c_uint64 * 4).from_buffer_copy(words)
        operation = 1 if memory else 2
        return cls(mipmapped, array, 0, part, operation, 0, memory, offset, 1, 0)

    @classmethod
    def tail(cls, array, memory, offset, at, bytes_):
        part = (c_uint64 * 4)(0, at, bytes_, 0)
        return cls(1, array, 1, part, 1 if memory else 2, 0, memory, offset, 1, 0)


class SparseProperties(ctypes.Structure):
    """CUDA_ARRAY_SPARSE_PROPERTIES."""

    _fields_ = [
        ("tile", c_uint32 * 3),
        ("tail_level", c_uint32),
        ("tail_bytes", c_uint64),
        ("flags", c_uint32),
        ("reserved", c_uint32 * 4),
    ]


class Requirements(ctypes.Structure):
    """CUDA_ARRAY_MEMORY_REQUIREMENTS."""

    _fields_ = [("bytes", c_size_t), ("alignment", c_size_t), ("reserved", c_uint32 * 4)]


def sparse():
    """Arrays without memory: tiles are mapped to handles and hold them."""
    start()
    sparse_flag, deferred = 0x40, 0x80
    plain = out("cuArray3DCreate_v2", byref(ArrayShape(100, 100, 0, 0x20, 1, 0)))
    assert now("array") == 40000
    physical_of_plain = card()[1]
    needs, properties = Requirements(), SparseProperties()
    assert code("cuArrayGetMemoryRequirements", byref(needs), plain, 0) == INVALID_VALUE
    assert code("cuArrayGetSparseProperties", byref(properties), plain) == INVALID_VALUE

    pool = out(
        "cuMemCreate", 4 * MIB,
        byref(AllocationProperties(1, 0, Location(1, 0), None, TILE_POOL << 16)), 0,
    )
    assert card() == (40000 + 4 * MIB, physical_of_plain + 4 * MIB)
    array = out("cuArray3DCreate_v2", byref(ArrayShape(300, 256, 0, 0x20, 1, sparse_flag)))
    assert card() == (40000 + 4 * MIB, physical_of_plain + 4 * MIB), "it has no memory"
    must("cuArrayGetSparseProperties", byref(properties), array)
    assert (list(properties.tile), properties.tail_bytes) == ([128, 128, 1], 0)
    do = lambda *entries: code("cuMemMapArrayAsync", (MapInfo * len(entries))(*entries), len(entries), 0)
    level = MapInfo.level
    assert do(level(array, pool, 0, (0, 0, 0), (256, 128, 1))) == SUCCESS
    assert do(level(array, pool, 2 * MIB, (256, 0, 0), (44, 256, 1))) == SUCCESS, "to its edge"
    for wrong in (
        level(array, pool, 0, (0, 64, 0), (128, 128, 1)),
        level(array, pool, 0, (0, 0, 0), (100, 128, 1)),
        level(array, pool, 0, (0, 0, 0), (128, 384, 1)),
        level(array, pool, 100, (0, 0, 0), (128, 128, 1)),
        level(array, pool, 4 * MIB, (0, 0, 0), (128, 128, 1)),
        level(array, 12345, 0, (0, 0, 0), (128, 128, 1)),
        level(plain, pool, 0, (0, 0, 0), (100, 100, 1)),
    ):
        assert do(level(array, 0, 0, (0, 0, 0), (300, 256, 1)), wrong) == INVALID_VALUE
    # Handles live on while tiles are mapped to them; the failed calls have unmapped none.
    must("cuMemRelease", pool)
    assert now("vmm") == 4 * MIB
    assert do(level(array, 0, 0, (0, 0, 0), (300, 128, 1))) == SUCCESS
    assert now("vmm") == 4 * MIB
    assert do(level(array, 0, 0, (0, 128, 0), (300, 128, 1))) == SUCCESS
    assert now("vmm") == 0
    must("cuArrayDestroy", array)

    # Levels smaller than a tile share the tail; the end of the array lets go.
    many = out("cuMipmappedArrayCreate", byref(ArrayShape(512, 512, 0, 0x20, 1, sparse_flag)), 5)
    must("cuMipmappedArrayGetSparseProperties", byref(properties), many)
    assert (properties.tail_level, properties.tail_bytes) == (3, 64 * KIB)
    pool = out(
        "cuMemCreate", 2 * MIB,
        byref(AllocationProperties(1, 0, Location(1, 0), None, TILE_POOL << 16)), 0,
    )
    other = physical(2 * MIB)
    assert do(MapInfo.tail(many, other, 0, 0, 64 * KIB)) == INVALID_VALUE, "not made for tiles"
    must("cuMemRelease", other)
    assert do(MapInfo.tail(many, pool, 0, 0, 64 * KIB)) == SUCCESS
    assert do(MapInfo.tail(many, pool, 0, 64 * KIB, 64 * KIB)) == INVALID_VALUE
    assert do(MapInfo.tail(many, pool, 0, 0, 10 * KIB)) == INVALID_VALUE
    assert do(level(many, pool, 0, (0, 0, 0), (128, 128, 1), 1, 2)) == SUCCESS
    assert do(level(many, pool, 0, (0, 0, 0), (64, 64, 1), 1, 3)) == INVALID_VALUE, "in the tail"
    one = out("cuMipmappedArrayGetLevel", many, 0)
    assert do(level(one, pool, 0, (0, 0, 0), (128, 128, 1))) == INVALID_VALUE
    must("cuMemRelease", pool)
    assert now("vmm") == 2 * MIB
    must("cuMipmappedArrayDestroy", many)
    assert now("vmm") == 0

    # Deferred mapping: all at once.
    late = out("cuArray3DCreate_v2", byref(ArrayShape(200, 200, 0, 0x20, 1, deferred)))
    must("cuArrayGetMemoryRequirements", byref(needs), late, 0)
    assert (needs.bytes, needs.alignment) == (192 * KIB, 64 * KIB)
    assert code("cuArrayGetMemoryRequirements", byref(needs), late, 9) == INVALID_DEVICE
    assert code("cuArrayGetSparseProperties", byref(properties), late) == INVALID_VALUE
    pool = out(
        "cuMemCreate", 2 * MIB,
        byref(AllocationProperties(1, 0, Location(1, 0), None, TILE_POOL << 16)), 0,
    )
    assert do(level(late, pool, 2 * MIB - 128 * KIB, (0, 0, 0), (0, 0, 0))) == INVALID_VALUE
    assert do(level(late, pool, 0, (0, 0, 0), (0, 0, 0))) == SUCCESS
    must("cuMemRelease", pool)
    assert now("vmm") == 2 * MIB
    must("cuDevicePrimaryCtxReset_v2", 0)
    assert (now("vmm"), now("array"), now("physical")) == (0, 0, 0)


def batches():
    """Managed memory, many ranges at once."""
    start()
    pointers = (c_uint64 * 3)(*(out("cuMemAllocManaged", 4 * MIB, 1) for _ in range(3)))
    sizes = (c_size_t * 3)(*[4 * MIB] * 3)
    places = (Location * 2)(Location(2, 0), Location(1, 0))
    prefetch, discard = "cuMemPrefetchBatchAsync", "cuMemDiscardBatchAsync"
    assert card() == (12 * MIB, 12 * MIB)
    firsts = (c_size_t * 2)(0, 2)
    must(prefetch, pointers, sizes, 3, places, firsts, 2, 0, 2)
    assert card() == (12 * MIB, 4 * MIB), "two at the host, one here"
    must(discard, pointers, sizes, 3, 0, 2)
    assert card() == (12 * MIB, 4 * MIB)
    must("cuMemDiscardAndPrefetchBatchAsync_ptsz", pointers, sizes, 2, byref(places[1]), firsts, 1, 0, 2)
    assert card() == (12 * MIB, 12 * MIB)
    wrong = (c_uint64 * 3)(pointers[0], pointers[1], 12345)
    assert code(prefetch, wrong, sizes, 3, places, firsts, 2, 0, 2) == INVALID_VALUE
    assert code(discard, wrong, sizes, 3, 0, 2) == INVALID_VALUE
    assert code(prefetch, pointers, sizes, 3, places, (c_size_t * 2)(1, 2), 2, 0, 2) == INVALID_VALUE
    assert code(prefetch, pointers, sizes, 3, places, (c_size_t * 2)(0, 3), 2, 0, 2) == INVALID_VALUE
    assert code(prefetch, pointers, sizes, 3, places, firsts, 2, 1, 2) == INVALID_VALUE
    assert code(prefetch, pointers, sizes, 0, places, firsts, 0, 0, 2) == INVALID_VALUE
    for legacy in (0, 1):
        assert code(discard, pointers, sizes, 3, 0, legacy) == INVALID_VALUE
    assert card() == (12 * MIB, 12 * MIB), "failed calls move nothing"
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
