"""Checks of all ways to reach the same memory of the simulated driver by a second address or owner; `sim_alias.py
NAME` runs one of them. Where two processes are needed, the second is a new process, and they exchange messages and
descriptors over a socket."""

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


class Peer:
    """One end of the connection between two processes."""

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
    """Maps a handle at a new address, with access."""
    base = out("cuMemAddressReserve", bytes_, 0, 0, 0)
    must("cuMemMap", base, bytes_, 0, handle, 0)
    assert allow(base, bytes_) == SUCCESS
    return base


def unmapped(base, bytes_):
    must("cuMemUnmap", base, bytes_)
    must("cuMemAddressFree", base, bytes_)


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
    for wrong in ((base, 2 * MIB), (base + 2 * MIB, 2 * MIB), (base, 6 * MIB), (base + 6 * MIB, 4 * MIB)):
        assert code("cuMemUnmap", *wrong) == INVALID_VALUE
    assert code("cuMemUnmap", base, 64 * MIB) == INVALID_VALUE, "more than is reserved"
    must("cuMemUnmap", base, 10 * MIB)
    must("cuMemUnmap", base, 10 * MIB)
    assert code("cuMemcpyDtoH_v2", ctypes.create_string_buffer(1), base, 1) == INVALID_VALUE
    assert code("cuMemRetainAllocationHandle", byref(place), c_void_p(base)) == INVALID_VALUE
    # What was written there is the handle's, wherever it is mapped next.
    must("cuMemMap", base, 2 * MIB, 0, handle, 0)
    assert allow(base, 2 * MIB) == SUCCESS
    assert read_back(base, 1) == b"\x09"
    must("cuMemUnmap", base, 2 * MIB)
    must("cuMemRelease", handle)
    assert card() == (0, 0)
    # Memory that cannot be shared is not exported; and memory for unsupported ways to share is not created.
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
    """Memory of `cuMemCreate` in two processes: the same bytes, owned and counted by one; on the card until both
    have released it."""
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
    # The creator releases it first: the memory stays on the card for the other process.
    unmapped(base, 4 * MIB)
    assert card() == (4 * MIB, 4 * MIB)
    must("cuMemRelease", handle)
    assert code("cuMemRelease", handle) == INVALID_VALUE
    assert card() == (0, 4 * MIB)
    free, total = memory_info()
    assert total - free == now("physical") + books()["context_bytes"], "with the other's context"
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
    """A pool's memory in two processes, and the figures of the creator's pool."""
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
    assert pool_attribute(pool, USED) == 1000 + 33 * MIB
    assert pool_attribute(pool, RESERVED) == 96 * MIB
    ended(process)
    must("cuMemFreeAsync", first, 0)
    must("cuMemFreeAsync", second, 0)
    assert (card(), pool_attribute(pool, RESERVED)) == ((0, 96 * MIB), 96 * MIB)
    must("cuMemPoolTrimTo", pool, 0)
    assert (card(), pool_attribute(pool, RESERVED)) == ((0, 0), 0)
    assert pool_attribute(pool, RESERVED_HIGH) == 96 * MIB
    assert pool_attribute(pool, USED_HIGH) == 1000 + 33 * MIB
    for mark in (RESERVED_HIGH, USED_HIGH):
        assert code("cuMemPoolSetAttribute", pool, mark, byref(c_uint64(5))) == INVALID_VALUE
        must("cuMemPoolSetAttribute", pool, mark, byref(c_uint64(0)))
        assert pool_attribute(pool, mark) == 0
    for fixed in (RESERVED, USED, 99):
        assert code("cuMemPoolSetAttribute", pool, fixed, byref(c_uint64(0))) == INVALID_VALUE
    # New memory of it is fresh, and belongs only to this pool: other pools do not get it.
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
    assert pool_attribute(own, USED_HIGH) == 1
    must("cuMemPoolDestroy", own)
    assert out("cuMemGetMemPool", byref(here), 1) == default
    for function in ("cuMemGetDefaultMemPool", "cuMemGetMemPool"):
        assert code(function, byref(place), byref(host), 1) == 0
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
    # The end of the context closes it; it can be opened again.
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
    # An array with three levels: `64 x 64 x 4` bytes, then a quarter, then a sixteenth.
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


if __name__ == "__main__":
    name, *ends = sys.argv[1:]
    globals()[name](*(Peer(socket.socket(fileno=int(end))) for end in ends))
