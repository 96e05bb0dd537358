"""Checks of everything by which the same memory of the simulated driver is reached a second way;
`sim_alias.py NAME` runs one of them. Where two processes are needed, the second is started afresh and
talks over a socket, by which descriptors go as well."""

import ctypes
import json
import os
import socket
import subprocess
import sys
import threading
from ctypes import byref, c_int, c_size_t, c_uint32, c_uint64, c_void_p

from sim_cuda import *  # noqa: F403  (a small vocabulary, all of it used)

FILE_DESCRIPTOR, FABRIC = 1, 8
TILE_POOL = 1
INVALID_RESOURCE_TYPE, INVALID_RESOURCE_CONFIGURATION = 914, 915


class Peer:
    """One end of the talk between two processes: what one tells, the other is told."""

    def __init__(self, end):
        self.end = end

    def tell(self, *descriptors, **words):
        """Sends descriptors and words."""
        data = json.dumps(words).encode()
        socket.send_fds(self.end, [len(data).to_bytes(4, "big") + data], list(descriptors))

    def told(self, **expected):
        """Waits for words, which must contain those expected; the words and the descriptors."""
        data, descriptors, _, _ = socket.recv_fds(self.end, 4096, 8)
        assert len(data) >= 4, "the other process has ended"
        assert len(data) == 4 + int.from_bytes(data[:4], "big")
        words = json.loads(data[4:])
        for name, value in expected.items():
            assert words[name] == value, words
        return words, descriptors


def start_peer(name):
    """Starts the other process, which runs the function of that name with its end of the talk."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    number = theirs.fileno()
    process = subprocess.Popen(
        [sys.executable, __file__, name, str(number)], pass_fds=[number]
    )
    theirs.close()
    return process, Peer(ours)


def ended(process):
    assert process.wait(60) == 0


def export(handle):
    """cuMemExportToShareableHandle; the descriptor."""
    return out("cuMemExportToShareableHandle", handle, FILE_DESCRIPTOR, 0, kind=c_int)


def import_(descriptor):
    """cuMemImportFromShareableHandle; the handle."""
    return out("cuMemImportFromShareableHandle", c_void_p(descriptor), FILE_DESCRIPTOR)


def mapped(handle, bytes_):
    """Maps a handle at an address of its own, with access."""
    base = out("cuMemAddressReserve", bytes_, 0, 0, 0)
    must("cuMemMap", base, bytes_, 0, handle, 0)
    assert allow(base, bytes_) == SUCCESS
    return base


def unmapped(base, bytes_):
    must("cuMemUnmap", base, bytes_)
    must("cuMemAddressFree", base, bytes_)


def card():
    """Requested bytes, and physical ones beyond the context's."""
    return now("driver"), now("physical") - books()["context_bytes"]


def reservations():
    """The rules of addresses: hints, whole reservations, several mappings at once."""
    start()
    base = out("cuMemAddressReserve", 32 * MIB, 0, 0, 0)
    place = c_uint64()
    for bytes_, align in ((0, 0), (MIB, 0), (2 * MIB, 3 * MIB)):
        assert code("cuMemAddressReserve", byref(place), bytes_, align, 0, 0) == INVALID_VALUE
    assert code("cuMemAddressReserve", byref(place), 2 * MIB, 0, 0, 1) == INVALID_VALUE
    # A hint is followed where nothing is, and only there.
    must("cuMemAddressFree", base, 32 * MIB)
    assert out("cuMemAddressReserve", 32 * MIB, 0, base, 0) == base
    assert out("cuMemAddressReserve", 2 * MIB, 0, base, 0) != base
    assert out("cuMemAddressReserve", 2 * MIB, 64 * MIB, 0, 0) % (64 * MIB) == 0
    assert code("cuMemAddressFree", base, 16 * MIB) == INVALID_VALUE, "not all of it"
    assert code("cuMemAddressFree", base + 2 * MIB, 2 * MIB) == INVALID_VALUE

    handle = physical(8 * MIB)
    assert code("cuMemMap", base, 8 * MIB, 2 * MIB, handle, 0) == INVALID_VALUE, "beyond its end"
    assert code("cuMemMap", base, MIB, 0, handle, 0) == INVALID_VALUE
    assert code("cuMemMap", base + MIB, 2 * MIB, 0, handle, 0) == INVALID_VALUE
    assert code("cuMemMap", base, 2 * MIB, 0, handle, 1) == INVALID_VALUE
    assert code("cuMemMap", base, 2 * MIB, 0, 12345, 0) == INVALID_VALUE
    # One handle in two mappings side by side: set and unmapped together, or each alone.
    must("cuMemMap", base, 4 * MIB, 4 * MIB, handle, 0)
    must("cuMemMap", base + 4 * MIB, 4 * MIB, 0, handle, 0)
    assert code("cuMemMap", base + 2 * MIB, 2 * MIB, 0, handle, 0) == INVALID_VALUE, "mapped"
    assert allow(base, 2 * MIB) == INVALID_VALUE, "part of a mapping"
    assert allow(base, 16 * MIB) == INVALID_VALUE, "more than is mapped"
    assert allow(base, 8 * MIB) == SUCCESS
    must("cuMemsetD8_v2", base + 4 * MIB, 9, 1)
    start_of, bytes_of = c_uint64(), c_size_t()
    must("cuMemGetAddressRange_v2", byref(start_of), byref(bytes_of), base + 5 * MIB)
    assert (start_of.value, bytes_of.value) == (base + 4 * MIB, 4 * MIB)
    for wrong in ((base, 2 * MIB), (base + 2 * MIB, 2 * MIB), (base, 6 * MIB), (base, 16 * MIB)):
        assert code("cuMemUnmap", *wrong) == INVALID_VALUE
    must("cuMemUnmap", base, 8 * MIB)
    assert code("cuMemUnmap", base, 8 * MIB) == INVALID_VALUE
    assert code("cuMemcpyDtoH_v2", ctypes.create_string_buffer(1), base, 1) == INVALID_VALUE
    assert code("cuMemRetainAllocationHandle", byref(place), c_void_p(base)) == INVALID_VALUE
    # What was written there is the handle's, wherever it is mapped next.
    must("cuMemMap", base, 2 * MIB, 0, handle, 0)
    assert allow(base, 2 * MIB) == SUCCESS
    assert read_back(base, 1) == b"\x09"
    must("cuMemUnmap", base, 2 * MIB)
    must("cuMemRelease", handle)
    assert card() == (0, 0)
    # Memory that cannot be shared is not; nor is it made to be shared in ways that are not had.
    handle = physical(2 * MIB)
    file = c_int(-7)
    assert code("cuMemExportToShareableHandle", byref(file), handle, FILE_DESCRIPTOR, 0) == INVALID_VALUE
    assert code("cuMemExportToShareableHandle", byref(file), handle, FABRIC, 0) == NOT_SUPPORTED
    properties = AllocationProperties(1, FABRIC, Location(1, 0), None, 0)
    assert code("cuMemCreate", byref(place), 2 * MIB, byref(properties), 0) == NOT_SUPPORTED
    assert (file.value, now("vmm")) == (-7, 2 * MIB)
    must("cuMemRelease", handle)
    for wrong in (-1, 12345, os.open("/dev/null", os.O_RDWR), os.memfd_create("other")):
        assert code("cuMemImportFromShareableHandle", byref(place), c_void_p(wrong), 1) == INVALID_VALUE


def handles():
    """Memory of `cuMemCreate` in two processes: the same bytes, owned and counted by one; on the card
    until both have let go."""
    start()
    handle = physical(4 * MIB, handle_types=FILE_DESCRIPTOR)
    base = mapped(handle, 4 * MIB)
    must("cuMemcpyHtoD_v2", base + 3 * MIB, b"parent", 6)
    process, peer = start_peer("handles_peer")
    descriptor = export(handle)
    peer.tell(descriptor)
    os.close(descriptor)
    peer.told(step="mapped")
    assert read_back(base + 3 * MIB, 6) == b"child!"
    assert card() == (4 * MIB, 4 * MIB)
    # The maker lets go first: the memory is on the card for the other process.
    unmapped(base, 4 * MIB)
    assert card() == (4 * MIB, 4 * MIB)
    must("cuMemRelease", handle)
    assert code("cuMemRelease", handle) == INVALID_VALUE
    assert card() == (0, 4 * MIB)
    free, total = memory_info()
    assert total - free == now("physical")
    peer.tell(step="released")
    peer.told(step="unmapped")
    assert card() == (0, 4 * MIB), "the other still has the handle"
    peer.tell(step="release")
    peer.told(step="released")
    assert card() == (0, 0)
    # A descriptor alone keeps it too, in whatever process it is.
    handle = physical(2 * MIB, handle_types=FILE_DESCRIPTOR)
    descriptor = export(handle)
    must("cuMemRelease", handle)
    assert card() == (0, 2 * MIB)
    peer.tell(descriptor)
    os.close(descriptor)
    peer.told(step="got it")
    assert card() == (0, 2 * MIB)
    peer.tell(step="close it")
    ended(process)
    assert card() == (0, 0), "the other process has ended"


def handles_peer(peer):
    start()
    _, [descriptor] = peer.told()
    handle = import_(descriptor)
    assert import_(descriptor) == handle, "once more is one more reference"
    os.close(descriptor)
    properties = AllocationProperties()
    must("cuMemGetAllocationPropertiesFromHandle", byref(properties), handle)
    assert (properties.kind, properties.location.kind, properties.location.id) == (1, 1, 0)
    assert properties.handle_types == FILE_DESCRIPTOR
    base = mapped(handle, 4 * MIB)
    assert read_back(base + 3 * MIB, 6) == b"parent"
    must("cuMemcpyHtoD_v2", base + 3 * MIB, b"child!", 6)
    assert card() == (0, 0), "an alias is not counted"
    assert out("cuMemRetainAllocationHandle", c_void_p(base)) == handle
    peer.tell(step="mapped")
    peer.told(step="released")
    assert read_back(base + 3 * MIB, 6) == b"child!"
    unmapped(base, 4 * MIB)
    peer.tell(step="unmapped")
    peer.told(step="release")
    for _ in range(3):
        must("cuMemRelease", handle)
    assert code("cuMemRelease", handle) == INVALID_VALUE
    assert card() == (0, 0)
    peer.tell(step="released")
    _, [descriptor] = peer.told()
    peer.tell(step="got it")
    peer.told(step="close it")


def ordinals():
    """Processes number devices as they see them; the memory is where it is."""
    start(1)
    handle = physical(2 * MIB, device=1, handle_types=FILE_DESCRIPTOR)
    process, peer = start_peer("ordinals_peer")
    descriptor = export(handle)
    peer.tell(descriptor)
    os.close(descriptor)
    peer.told(step="seen")
    ended(process)
    assert now("vmm", 1) == 2 * MIB and now("vmm", 0) == 0
    must("cuMemRelease", handle)


def ordinals_peer(peer):
    os.environ["CUDA_VISIBLE_DEVICES"] = "1"
    start(0)
    _, [descriptor] = peer.told()
    handle = import_(descriptor)
    properties = AllocationProperties()
    must("cuMemGetAllocationPropertiesFromHandle", byref(properties), handle)
    assert properties.location.id == 0
    peer.tell(step="seen")


def pool_attribute(pool, which):
    value = c_uint64()
    must("cuMemPoolGetAttribute", pool, which, byref(value))
    return value.value


RESERVED, RESERVED_HIGH, USED, USED_HIGH = 5, 6, 7, 8


def pools():
    """A pool's memory in two processes; what the pool of the maker says of it."""
    start()
    properties = PoolProperties(1, FILE_DESCRIPTOR, Location(1, 0), None, 0)
    pool = out("cuMemPoolCreate", byref(properties))
    first = out("cuMemAllocFromPoolAsync", 1000, pool, 0)
    second = out("cuMemAllocFromPoolAsync", 33 * MIB, pool, 0)
    must("cuMemcpyHtoD_v2", first, b"parent", 6)
    must("cuMemcpyHtoD_v2", second + 32 * MIB, b"parent", 6)
    process, peer = start_peer("pools_peer")
    descriptor = out("cuMemPoolExportToShareableHandle", pool, FILE_DESCRIPTOR, 0, kind=c_int)
    pointers = []
    for pointer in (first, second + 5):
        data = IpcHandle()
        must("cuMemPoolExportPointer", byref(data), pointer)
        pointers.append(bytes(ctypes.string_at(byref(data), 64)).hex())
    peer.tell(descriptor, pointers=pointers)
    os.close(descriptor)
    peer.told(step="written")
    assert read_back(first, 6) == read_back(second + 32 * MIB, 6) == b"child!"
    assert card() == (1000 + 33 * MIB, 96 * MIB)
    assert pool_attribute(pool, USED) == 1024 + 33 * MIB
    assert pool_attribute(pool, RESERVED) == 96 * MIB
    ended(process)
    must("cuMemFreeAsync", first, 0)
    must("cuMemFree_v2", second)
    assert (card(), pool_attribute(pool, RESERVED)) == ((0, 96 * MIB), 96 * MIB)
    must("cuMemPoolTrimTo", pool, 0)
    assert (card(), pool_attribute(pool, RESERVED)) == ((0, 0), 0)
    assert pool_attribute(pool, RESERVED_HIGH) == 96 * MIB
    assert pool_attribute(pool, USED_HIGH) == 1024 + 33 * MIB
    for mark in (RESERVED_HIGH, USED_HIGH):
        assert code("cuMemPoolSetAttribute", pool, mark, byref(c_uint64(5))) == INVALID_VALUE
        must("cuMemPoolSetAttribute", pool, mark, byref(c_uint64(0)))
        assert pool_attribute(pool, mark) == 0
    for fixed in (RESERVED, USED, 99):
        assert code("cuMemPoolSetAttribute", pool, fixed, byref(c_uint64(0))) == INVALID_VALUE
    # New memory of it is fresh, and only the pool's own: nothing of it comes to other pools.
    fresh = out("cuMemAllocFromPoolAsync", 1000, pool, 0)
    assert read_back(fresh, 6) == bytes(6)
    must("cuMemFreeAsync", fresh, 0)
    must("cuMemPoolDestroy", pool)
    assert card() == (0, 0)

    # What was not made for sharing is not shared.
    default = out("cuDeviceGetDefaultMemPool", 0)
    file = c_int()
    assert code("cuMemPoolExportToShareableHandle", byref(file), default, 1, 0) == INVALID_VALUE
    plain = out("cuMemAllocAsync", 1000, 0)
    device = out("cuMemAlloc_v2", 1000)
    for pointer in (plain, device, 12345):
        assert code("cuMemPoolExportPointer", byref(IpcHandle()), pointer) == INVALID_VALUE
    must("cuMemFreeAsync", plain, 0)
    must("cuMemFree_v2", device)
    place = c_uint64()
    unknown = PoolProperties(1, FABRIC, Location(1, 0), None, 0)
    assert code("cuMemPoolCreate", byref(place), byref(unknown)) == NOT_SUPPORTED
    # Pools by location.
    here, host, nowhere = Location(1, 0), Location(2, 0), Location(9, 0)
    assert out("cuMemGetDefaultMemPool", byref(here), 1) == default
    assert out("cuMemGetMemPool", byref(here), 1) == default
    own = out("cuMemPoolCreate", byref(properties))
    must("cuMemSetMemPool", byref(here), 1, own)
    assert out("cuMemGetMemPool", byref(here), 1) == own == out("cuDeviceGetMemPool", 0)
    must("cuMemFreeAsync", out("cuMemAllocAsync", 1, 0), 0)
    assert pool_attribute(own, USED_HIGH) == 512
    must("cuMemPoolDestroy", own)
    assert out("cuMemGetMemPool", byref(here), 1) == default
    for function in ("cuMemGetDefaultMemPool", "cuMemGetMemPool"):
        assert code(function, byref(place), byref(host), 1) == NOT_SUPPORTED
        assert code(function, byref(place), byref(nowhere), 1) == INVALID_VALUE
        assert code(function, byref(place), byref(Location(1, 7)), 1) == INVALID_DEVICE
    # Access: the pool's own device always has it.
    flags = c_uint32()
    must("cuMemPoolGetAccess", byref(flags), default, byref(here))
    assert flags.value == 3
    assert code("cuMemPoolSetAccess", default, byref(Access(here, 0)), 1) == INVALID_VALUE
    assert code("cuMemPoolSetAccess", default, byref(Access(host, 3)), 1) == INVALID_VALUE
    assert code("cuMemPoolSetAccess", 12345, byref(Access(here, 3)), 1) == INVALID_VALUE
    must("cuMemPoolSetAccess", default, byref(Access(here, 3)), 1)


def pools_peer(peer):
    start()
    words, [descriptor] = peer.told()
    place = c_uint64()
    pool = out("cuMemPoolImportFromShareableHandle", c_void_p(descriptor), FILE_DESCRIPTOR, 0)
    other = physical(2 * MIB, handle_types=FILE_DESCRIPTOR)
    wrong = export(other)
    assert code("cuMemPoolImportFromShareableHandle", byref(place), c_void_p(wrong), 1, 0) == INVALID_VALUE
    assert code("cuMemImportFromShareableHandle", byref(place), c_void_p(descriptor), 1) == INVALID_VALUE
    os.close(wrong)
    must("cuMemRelease", other)
    first, second = (
        IpcHandle.from_buffer_copy(bytes.fromhex(text)) for text in words["pointers"]
    )
    one = out("cuMemPoolImportPointer", pool, byref(first))
    two = out("cuMemPoolImportPointer", pool, byref(second))
    assert code("cuMemPoolImportPointer", byref(place), pool, byref(IpcHandle())) == INVALID_VALUE
    own = out("cuDeviceGetDefaultMemPool", 0)
    assert code("cuMemPoolImportPointer", byref(place), own, byref(first)) == INVALID_VALUE
    assert read_back(one, 6) == read_back(two + 32 * MIB, 6) == b"parent"
    must("cuMemcpyHtoD_v2", one, b"child!", 6)
    must("cuMemcpyHtoD_v2", two + 32 * MIB, b"child!", 6)
    start_of, bytes_of = c_uint64(), c_size_t()
    must("cuMemGetAddressRange_v2", byref(start_of), byref(bytes_of), two + MIB)
    assert (start_of.value, bytes_of.value) == (two, 33 * MIB)
    assert card() == (0, 0), "aliases are not counted"
    # An imported pool allocates nothing.
    assert code("cuMemAllocFromPoolAsync", byref(place), 100, pool, 0) == INVALID_VALUE
    assert code("cuDeviceSetMemPool", 0, pool) == INVALID_VALUE
    file = c_int()
    assert code("cuMemPoolExportToShareableHandle", byref(file), pool, 1, 0) == INVALID_VALUE
    assert (pool_attribute(pool, RESERVED), pool_attribute(pool, USED)) == (0, 0)
    must("cuMemPoolDestroy", pool)
    assert read_back(one, 6) == b"child!", "what was imported of it stays"
    must("cuMemFreeAsync", one, 0)
    must("cuMemFree_v2", two)
    assert code("cuMemFree_v2", two) == INVALID_VALUE
    assert books()["driver"]["frees"] == books()["driver"]["allocations"] == 1
    peer.tell(step="written")


def opened(handle):
    """cuIpcOpenMemHandle_v2 of 64 bytes as hexadecimal digits: the result code and the address."""
    LIBRARY.cuIpcOpenMemHandle_v2.argtypes = [c_void_p, IpcHandle, c_uint32]
    place = c_uint64()
    raw = IpcHandle.from_buffer_copy(bytes.fromhex(handle))
    return LIBRARY.cuIpcOpenMemHandle_v2(byref(place), raw, 1), place.value


def ipc_handle(function, of):
    handle = IpcHandle()
    must(function, byref(handle), of)
    return bytes(ctypes.string_at(byref(handle), 64)).hex()


def ipc():
    """Memory and events by IPC handles: opened more than once, freed by the owner while open, of a
    process that is gone."""
    start()
    large, small = out("cuMemAlloc_v2", 3 * MIB), out("cuMemAlloc_v2", 100)
    event = out("cuEventCreate", 6)
    plain = out("cuEventCreate", 2)
    assert code("cuIpcGetEventHandle", byref(IpcHandle()), plain) == INVALID_VALUE
    managed = out("cuMemAllocManaged", 1000, 1)
    ordered = out("cuMemAllocAsync", 1000, 0)
    for pointer in (managed, ordered, 12345):
        assert code("cuIpcGetMemHandle", byref(IpcHandle()), pointer) == INVALID_VALUE
    must("cuMemFree_v2", managed)
    must("cuMemFree_v2", ordered)
    must("cuCtxSynchronize")
    handle = ipc_handle("cuIpcGetMemHandle", large)
    assert handle == ipc_handle("cuIpcGetMemHandle", large + 5), "of its beginning, always"
    process, peer = start_peer("ipc_peer")
    peer.tell(
        large=handle,
        small=ipc_handle("cuIpcGetMemHandle", small),
        event=ipc_handle("cuIpcGetEventHandle", event),
    )
    peer.told(step="opened")
    assert card() == (3 * MIB + 100, 6 * MIB)
    assert read_back(large, 6) == b"child!"
    must("cuMemFree_v2", large)
    assert card() == (100, 6 * MIB), "the other still has it open"
    assert code("cuMemFree_v2", large) == INVALID_VALUE
    peer.tell(step="freed")
    peer.told(step="closed")
    assert card() == (100, 2 * MIB)
    again = out("cuMemAlloc_v2", 3 * MIB)
    assert ipc_handle("cuIpcGetMemHandle", again) != handle
    must("cuMemFree_v2", again)
    peer.tell(step="go")
    ended(process)


def ipc_peer(peer):
    start()
    words, _ = peer.told()
    result, large = opened(words["large"])
    assert result == SUCCESS
    assert opened(words["large"]) == (SUCCESS, large), "the same address, once more"
    result, small = opened(words["small"])
    assert result == SUCCESS and read_back(small, 1) == b"\0"
    must("cuMemcpyHtoD_v2", large, b"child!", 6)
    assert card() == (0, 0)
    raw = IpcHandle.from_buffer_copy(bytes.fromhex(words["event"]))
    LIBRARY.cuIpcOpenEventHandle.argtypes = [c_void_p, IpcHandle]
    event = c_uint64()
    assert LIBRARY.cuIpcOpenEventHandle(byref(event), raw) == SUCCESS
    must("cuEventQuery", event.value)
    must("cuStreamWaitEvent", 0, event.value, 0)
    must("cuEventDestroy_v2", event.value)
    assert LIBRARY.cuIpcOpenEventHandle(byref(event), IpcHandle()) == INVALID_VALUE
    assert opened("00" * 64) == (INVALID_VALUE, 0)
    peer.tell(step="opened")
    peer.told(step="freed")
    must("cuIpcCloseMemHandle", large)
    assert read_back(large, 6) == b"child!", "opened twice, closed once"
    must("cuIpcCloseMemHandle", large)
    assert code("cuIpcCloseMemHandle", large) == INVALID_VALUE
    assert code("cuMemFree_v2", small) == INVALID_VALUE, "closed, not freed"
    # The end of the context closes it; it can be opened anew.
    must("cuDevicePrimaryCtxReset_v2", 0)
    result, again = opened(words["small"])
    assert result == SUCCESS and read_back(again, 1) == b"\0"
    must("cuIpcCloseMemHandle", again)
    peer.tell(step="closed")
    peer.told(step="go")
    assert opened(words["large"]) == (INVALID_VALUE, 0), "it is gone"


class ExternalHandle(ctypes.Structure):
    """CUDA_EXTERNAL_MEMORY_HANDLE_DESC."""

    _fields_ = [
        ("kind", c_uint32),
        ("file", c_uint64),
        ("name", c_uint64),
        ("bytes", c_uint64),
        ("flags", c_uint32),
        ("reserved", c_uint32 * 16),
    ]


class ExternalBuffer(ctypes.Structure):
    """CUDA_EXTERNAL_MEMORY_BUFFER_DESC."""

    _fields_ = [
        ("offset", c_uint64),
        ("bytes", c_uint64),
        ("flags", c_uint32),
        ("reserved", c_uint32 * 16),
    ]


class ArrayShape(ctypes.Structure):
    """CUDA_ARRAY3D_DESCRIPTOR."""

    _fields_ = [
        ("width", c_size_t),
        ("height", c_size_t),
        ("depth", c_size_t),
        ("format", c_uint32),
        ("channels", c_uint32),
        ("flags", c_uint32),
    ]


class ExternalArray(ctypes.Structure):
    """CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC."""

    _fields_ = [
        ("offset", c_uint64),
        ("shape", ArrayShape),
        ("levels", c_uint32),
        ("reserved", c_uint32 * 16),
    ]


def external():
    """Memory of another interface, for which a file in memory stands: aliases, not counted."""
    start()
    file = os.memfd_create("vulkan")
    os.ftruncate(file, 4 * MIB)
    keep = os.dup(file)
    place = c_uint64()

    def described(file, bytes_, kind=1, flags=0):
        return byref(ExternalHandle(kind, file, 0, bytes_, flags))

    for wrong in (described(file, 5 * MIB), described(file, 0), described(12345, MIB),
                  described(file, MIB, kind=0), described(file, MIB, flags=2)):
        assert code("cuImportExternalMemory", byref(place), wrong) == INVALID_VALUE
    for kind in (2, 8, 9):
        assert code("cuImportExternalMemory", byref(place), described(file, MIB, kind=kind)) == NOT_SUPPORTED
    memory = out("cuImportExternalMemory", described(file, 4 * MIB, flags=1))
    assert os.fstat(file), "it is the driver's, and open"
    a = out("cuExternalMemoryGetMappedBuffer", memory, byref(ExternalBuffer(0, 4 * MIB, 0)))
    b = out("cuExternalMemoryGetMappedBuffer", memory, byref(ExternalBuffer(3 * MIB + 100, 1000, 0)))
    must("cuMemcpyHtoD_v2", b, b"device", 6)
    assert read_back(a + 3 * MIB + 100, 6) == os.pread(keep, 6, 3 * MIB + 100) == b"device"
    os.pwrite(keep, b"interop", 5)
    assert read_back(a + 5, 7) == b"interop"
    for wrong in (ExternalBuffer(MIB, 4 * MIB, 0), ExternalBuffer(0, 0, 0), ExternalBuffer(0, MIB, 1)):
        assert code("cuExternalMemoryGetMappedBuffer", byref(place), memory, byref(wrong)) == INVALID_VALUE
    # An array with three levels: 64 x 64 x 4 bytes, then a quarter, then a sixteenth.
    shape = ArrayShape(64, 64, 0, 0x20, 1, 0)
    array = out("cuExternalMemoryGetMappedMipmappedArray", memory, byref(ExternalArray(MIB, shape, 3)))
    level = out("cuMipmappedArrayGetLevel", array, 2)
    found = ArrayShape()
    must("cuArray3DGetDescriptor_v2", byref(found), level)
    assert (found.width, found.height, found.format) == (16, 16, 0x20)
    must("cuMemcpyHtoA_v2", level, 0, b"level", 5)
    assert os.pread(keep, 5, MIB + 64 * 64 * 4 + 32 * 32 * 4) == b"level"
    far = byref(ExternalArray(4 * MIB - 100, shape, 3))
    assert code("cuExternalMemoryGetMappedMipmappedArray", byref(place), memory, far) == INVALID_VALUE
    assert card() == (0, 0) and books()["driver"]["allocations"] == 0
    must("cuDestroyExternalMemory", memory)
    try:
        os.fstat(file)
        raise AssertionError("the driver has not closed it")
    except OSError:
        pass
    assert code("cuDestroyExternalMemory", memory) == INVALID_HANDLE
    assert read_back(b, 6) == b"device", "what is mapped stays"
    must("cuMipmappedArrayDestroy", array)
    must("cuMemFree_v2", a)
    must("cuMemFree_v2", b)
    assert code("cuMemFree_v2", b) == INVALID_VALUE
    assert card() == (0, 0) and books()["driver"]["frees"] == 0


class MulticastProperties(ctypes.Structure):
    """CUmulticastObjectProp."""

    _fields_ = [
        ("devices", c_uint32),
        ("bytes", c_size_t),
        ("handle_types", c_uint64),
        ("flags", c_uint64),
    ]


def attribute(which, device=0):
    value = c_int()
    must("cuDeviceGetAttribute", byref(value), which, device)
    return value.value


def multicast():
    """A multicast object over two devices of one process: costs nothing, holds what is bound."""
    for device in (1, 0):
        start(device)
    assert attribute(132) == 1
    granularity = out(
        "cuMulticastGetGranularity", byref(MulticastProperties(2, 4 * MIB, 0, 0)), 0, kind=c_size_t
    )
    assert granularity == 2 * MIB
    place = c_uint64()
    for wrong in ((0, 4 * MIB, 0, 0), (2, MIB, 0, 0), (2, 0, 0, 0), (2, 4 * MIB, 0, 1)):
        properties = MulticastProperties(*wrong)
        assert code("cuMulticastCreate", byref(place), byref(properties)) == INVALID_VALUE
    properties = MulticastProperties(2, 4 * MIB, FABRIC, 0)
    assert code("cuMulticastCreate", byref(place), byref(properties)) == NOT_SUPPORTED
    team = out("cuMulticastCreate", byref(MulticastProperties(2, 4 * MIB, 0, 0)))
    must("cuMulticastAddDevice", team, 0)
    assert code("cuMulticastAddDevice", team, 0) == INVALID_VALUE, "it is there already"
    assert code("cuMulticastAddDevice", team, 7) == INVALID_DEVICE
    must("cuMulticastAddDevice", team, 1)
    assert card() == (0, 0)
    handles = [physical(4 * MIB, device=device) for device in range(2)]
    must("cuMulticastBindMem", team, 0, handles[0], 0, 4 * MIB, 0)
    assert code("cuMulticastBindMem", team, 0, handles[0], 0, 2 * MIB, 0) == INVALID_VALUE, "bound"
    assert code("cuMulticastBindMem", team, 2 * MIB, handles[1], 0, 4 * MIB, 0) == INVALID_VALUE
    assert code("cuMulticastBindMem", team, 0, handles[1], 2 * MIB, 4 * MIB, 0) == INVALID_VALUE
    assert code("cuMulticastBindMem", team, MIB, handles[1], 0, 2 * MIB, 0) == INVALID_VALUE
    assert code("cuMulticastBindMem_v2", team, 0, 0, handles[1], 0, 4 * MIB, 0) == INVALID_VALUE
    assert code("cuMulticastBindMem", 12345, 0, handles[1], 0, 2 * MIB, 0) == INVALID_VALUE
    must("cuMulticastBindMem_v2", team, 1, 0, handles[1], 2 * MIB, 2 * MIB, 0)
    base = mapped(handles[1], 4 * MIB)
    must("cuMulticastBindAddr_v2", team, 1, 2 * MIB, base, 2 * MIB, 0)
    assert code("cuMulticastBindAddr", team, 2 * MIB, base, 2 * MIB, 0) == INVALID_VALUE, "bound"
    assert (now("vmm", 0), now("vmm", 1)) == (4 * MIB, 4 * MIB)
    # The object's own addresses are for kernels.
    window = mapped(team, 4 * MIB)
    assert code("cuMemsetD8_v2", window, 1, 1) == INVALID_VALUE
    assert out("cuMemRetainAllocationHandle", c_void_p(window)) == team
    must("cuMemRelease", team)
    # What is bound lives on without its handle; what is unbound does not.
    unmapped(base, 4 * MIB)
    for handle in handles:
        must("cuMemRelease", handle)
    assert (now("vmm", 0), now("vmm", 1)) == (4 * MIB, 4 * MIB)
    assert code("cuMulticastUnbind", team, 0, 0, 2 * MIB) == INVALID_VALUE, "not as it was bound"
    must("cuMulticastUnbind", team, 0, 0, 4 * MIB)
    assert (now("vmm", 0), now("vmm", 1)) == (0, 4 * MIB)
    # The object lives until references and mappings are gone.
    must("cuMemRelease", team)
    assert code("cuMemRelease", team) == INVALID_VALUE
    assert now("vmm", 1) == 4 * MIB
    unmapped(window, 4 * MIB)
    assert now("vmm", 1) == 0
    assert code("cuMulticastAddDevice", team, 0) == INVALID_VALUE


def multicast_shared():
    """A team of two processes, each with its own device: what needs all of it waits for the other."""
    start(0)
    team = out("cuMulticastCreate", byref(MulticastProperties(2, 2 * MIB, FILE_DESCRIPTOR, 0)))
    process, peer = start_peer("multicast_peer")
    descriptor = export(team)
    must("cuMulticastAddDevice", team, 0)
    private, handle = physical(2 * MIB), physical(2 * MIB, handle_types=FILE_DESCRIPTOR)
    bound = []
    waiting = threading.Thread(
        target=lambda: bound.append(code("cuMulticastBindMem", team, 0, handle, 0, 2 * MIB, 0))
    )
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive() and not bound, "the other device is not there yet"
    assert now("vmm") == 4 * MIB, "others are served meanwhile"
    peer.tell(descriptor)
    os.close(descriptor)
    waiting.join(60)
    assert bound == [SUCCESS]
    assert code("cuMulticastBindMem", team, 0, private, 0, 2 * MIB, 0) == INVALID_VALUE, "not shareable"
    peer.told(step="bound")
    must("cuMulticastUnbind", team, 0, 0, 2 * MIB)
    for one in (team, private, handle):
        must("cuMemRelease", one)
    assert now("vmm") == 0
    ended(process)


def multicast_peer(peer):
    start(1)
    _, [descriptor] = peer.told()
    team = import_(descriptor)
    assert import_(descriptor) == team
    must("cuMemRelease", team)
    os.close(descriptor)
    assert code("cuMulticastAddDevice", team, 0) == INVALID_VALUE, "the other process has added it"
    must("cuMulticastAddDevice", team, 1)
    handle = physical(2 * MIB, device=1, handle_types=FILE_DESCRIPTOR)
    must("cuMulticastBindMem", team, 0, handle, 0, 2 * MIB, 0)
    window = mapped(team, 2 * MIB)
    assert now("vmm", 1) == 2 * MIB
    unmapped(window, 2 * MIB)
    peer.tell(step="bound")


def no_multicast():
    """Devices before compute capability 9.0 have none."""
    start()
    assert attribute(132) == 0
    place, properties = c_uint64(), MulticastProperties(1, 2 * MIB, 0, 0)
    assert code("cuMulticastCreate", byref(place), byref(properties)) == NOT_SUPPORTED
    assert code("cuMulticastGetGranularity", byref(place), byref(properties), 0) == NOT_SUPPORTED


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


if __name__ == "__main__":
    name, *ends = sys.argv[1:]
    globals()[name](*(Peer(socket.socket(fileno=int(end))) for end in ends))
