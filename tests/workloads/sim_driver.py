"""Checks of the simulated driver's functions, called directly; `sim_driver.py NAME` runs one of them. They need only
ctypes."""

import ctypes
import os
import sys
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p

from sim_cuda import *  # noqa: F403  (a small vocabulary, all of it used)


def errors():
    """The driver's error codes; failed calls change nothing; cuMemGetInfo agrees with the books."""
    pointer = c_uint64(77)
    assert code("cuMemAlloc_v2", byref(pointer), 100) == NOT_INITIALIZED
    assert code("cuCtxGetDevice", byref(pointer)) == NOT_INITIALIZED
    assert code("cuDeviceGetCount", byref(pointer)) == NOT_INITIALIZED
    assert code("cuInit", 1) == INVALID_VALUE
    must("cuInit", 0)
    assert code("cuCtxGetDevice", byref(pointer)) == INVALID_CONTEXT
    assert code("cuMemAlloc_v2", byref(pointer), 100) == INVALID_CONTEXT
    assert code("cuMemFree_v2", 12345) == INVALID_VALUE, "it needs no context"
    must("cuMemFree_v2", 0)
    assert code("cuDevicePrimaryCtxRetain", byref(pointer), 9) == INVALID_DEVICE
    assert code("cuDeviceGet", byref(pointer), -1) == INVALID_DEVICE
    assert out("cuCtxGetCurrent") == 0
    assert pointer.value == 77

    start()
    before = books()
    assert code("cuMemAlloc_v2", byref(pointer), 0) == INVALID_VALUE
    assert code("cuMemAlloc_v2", None, 100) == INVALID_VALUE
    free, total = memory_info()
    assert (total - free, total) == (now("physical"), books()["total_bytes"])
    for too_much in (free + 1, total, 1 << 62, (1 << 64) - 1):
        assert code("cuMemAlloc_v2", byref(pointer), too_much) == OUT_OF_MEMORY
        assert code("cuMemAllocAsync", byref(pointer), too_much, 0) == OUT_OF_MEMORY
    assert code("cuMemFree_v2", 12345) == INVALID_VALUE
    assert code("cuMemFreeHost", 12345) == INVALID_VALUE
    assert code("cuMemFreeAsync", 12345, 0) == INVALID_VALUE
    assert code("cuStreamSynchronize", 12345) == INVALID_HANDLE
    assert code("cuMemcpyHtoD_v2", 12345, b"abc", 3) == INVALID_VALUE
    assert code("cuMemsetD8_v2", 12345, 1, 3) == INVALID_VALUE
    assert code("cuGraphConditionalHandleCreate", byref(pointer), 0, 0, 0, 0) == NOT_SUPPORTED
    assert (books(), pointer.value) == (before, 77)

    held = out("cuMemAlloc_v2", 1000)
    assert code("cuMemFree_v2", held + 512) == INVALID_VALUE
    assert code("cuMemFreeHost", held) == INVALID_VALUE
    assert code("cuMemcpyHtoD_v2", held + 990, b"x" * 20, 20) == INVALID_VALUE
    assert now("device") == 1000
    must("cuMemFree_v2", held)
    assert code("cuMemFree_v2", held) == INVALID_VALUE
    assert code("cuMemcpyDtoH_v2", ctypes.create_string_buffer(8), held, 8) == INVALID_VALUE
    must("cuMemFree_v2", 0)
    # A request for 0 bytes of pinned or stream-ordered memory allocates nothing.
    for function, *rest in (("cuMemAllocHost_v2", 0), ("cuMemHostAlloc", 0, 0), ("cuMemAllocAsync", 0, 0)):
        assert out(function, *rest) == 0
    assert now("driver") == now("host") == 0

    text = ctypes.c_char_p()
    must("cuGetErrorName", 2, byref(text))
    assert text.value == b"CUDA_ERROR_OUT_OF_MEMORY"
    assert code("cuGetErrorName", 123456, byref(text)) == INVALID_VALUE and text.value is None


def pages():
    """Small allocations share pages, large ones have their own; the peak is the peak of the sum."""
    start()
    context = now("physical")
    small = [out("cuMemAlloc_v2", 512 * KIB) for _ in range(4)]
    assert now("physical") == context + 2 * MIB and now("driver") == 2 * MIB
    small.append(out("cuMemAlloc_v2", 1))
    assert now("physical") == context + 4 * MIB
    small.append(out("cuMemAlloc_v2", MIB))
    assert now("physical") == context + 4 * MIB, "half a page is small"
    large = [out("cuMemAlloc_v2", MIB + 1), out("cuMemAlloc_v2", 2 * MIB), out("cuMemAlloc_v2", 2 * MIB)]
    assert now("physical") == context + 10 * MIB
    assert large[1] - large[2] == 2 * MIB, "whole pages lie side by side"
    assert all(pointer % 512 == 0 for pointer in [*small, *large])
    assert len({pointer for pointer in small}) == 6
    most = now("driver")
    for pointer in large:
        must("cuMemFree_v2", pointer)
    for pointer in small:
        must("cuMemFree_v2", pointer)
    assert (now("physical"), now("driver"), peak("driver")) == (context, 0, most)
    row = books()["driver"]
    assert (row["allocations"], row["frees"]) == (9, 9)
    # Managed memory moves to the card when the device touches it. It may exceed the card, and makes room for other
    # memory.
    free, total = memory_info()
    managed = out("cuMemAllocManaged", 2 * total, 1)
    assert now("managed") == now("driver") == 2 * total and memory_info()[0] == free
    must("cuMemsetD8_v2", managed, 0, 1)
    assert now("managed") == 2 * total and memory_info()[0] == 0
    held = out("cuMemAlloc_v2", 100 * MIB)
    must("cuMemFree_v2", managed)
    assert now("physical") == context + 100 * MIB, "no room was left for what the first touch costs"
    must("cuMemFree_v2", held)
    # The first touch in a context costs it 64 MiB more.
    managed = out("cuMemAllocManaged", MIB, 1)
    must("cuMemcpyHtoD_v2", managed, b"abc", 3)
    assert (now("resident"), now("physical")) == (2 * MIB, context + 66 * MIB)
    must("cuMemFree_v2", managed)
    context = now("physical")
    # A prefetch moves it to the host and back; neither changes the requested size.
    managed = out("cuMemAllocManaged", 10 * MIB, 1)
    for place, resident in ((-1, 0), (0, 10 * MIB)):
        must("cuMemPrefetchAsync", managed, 10 * MIB, place, 0)
        assert (now("managed"), now("physical")) == (10 * MIB, context + resident)
    must("cuMemPrefetchAsync_v2", managed, 10 * MIB, Location(2, 0), 0, 0)
    assert now("physical") == context
    assert code("cuMemPrefetchAsync", managed, 11 * MIB, 0, 0) == INVALID_VALUE
    must("cuMemFree_v2", managed)
    assert now("physical") == context


def contexts():
    """Primary contexts are counted; reset and the last release destroy what is on the device."""
    must("cuInit", 0)
    flags, active = c_uint64(), c_int()
    must("cuDevicePrimaryCtxGetState", 0, byref(flags), byref(active))
    assert active.value == 0 and now("physical") == 0
    first = out("cuDevicePrimaryCtxRetain", 0)
    assert out("cuDevicePrimaryCtxRetain", 0) == first
    cost = now("physical")
    assert cost == books()["context_bytes"] > 0
    must("cuCtxSetCurrent", first)
    assert out("cuCtxGetDevice", kind=c_int) == 0
    # An ordinary context costs the same again, and its end takes its allocations along.
    second = out("cuCtxCreate_v2", 0, 0)
    assert out("cuCtxGetCurrent") == second != first
    assert now("physical") == 2 * cost
    out("cuMemAlloc_v2", 5 * MIB)
    out("cuMemAllocHost_v2", 4 * KIB)
    assert (now("driver"), now("host")) == (5 * MIB, 4 * KIB)
    must("cuCtxPopCurrent_v2", None)
    kept = out("cuMemAlloc_v2", 3 * MIB)
    must("cuCtxPushCurrent_v2", second)
    must("cuCtxDestroy_v2", second)
    assert out("cuCtxGetCurrent") == first
    assert (now("driver"), now("host"), now("physical")) == (3 * MIB, 0, cost + 4 * MIB)
    assert code("cuCtxDestroy_v2", second) == INVALID_CONTEXT
    assert code("cuCtxSetCurrent", second) == CONTEXT_IS_DESTROYED
    # One of two references: no effect. Reset: all memory is freed, and the next use activates the context.
    must("cuDevicePrimaryCtxRelease_v2", 0)
    assert now("driver") == 3 * MIB
    handle = physical(2 * MIB)
    out("cuMemAllocAsync", 1000, 0)
    assert now("driver") == 5 * MIB + 1000
    must("cuDevicePrimaryCtxReset_v2", 0)
    assert (now("driver"), now("physical")) == (0, 0)
    assert code("cuMemFree_v2", kept) == INVALID_VALUE
    assert code("cuMemRelease", handle) == INVALID_VALUE
    must("cuCtxSetCurrent", first)
    must("cuDevicePrimaryCtxGetState", 0, byref(flags), byref(active))
    assert (active.value, out("cuCtxGetDevice", kind=c_int), now("physical")) == (0, 0, 0)
    out("cuMemAlloc_v2", 100)
    assert now("physical") == cost + 2 * MIB
    must("cuDevicePrimaryCtxGetState", 0, byref(flags), byref(active))
    assert active.value == 1
    must("cuDevicePrimaryCtxRelease_v2", 0)
    assert (now("driver"), now("physical")) == (0, 0)
    assert code("cuDevicePrimaryCtxRelease_v2", 0) == INVALID_CONTEXT
    assert code("cuMemAlloc_v2", byref(c_uint64()), 100) == CONTEXT_IS_DESTROYED
    row = books()["driver"]
    assert row["allocations"] == row["frees"]
    # A context that does not fit is refused, with nothing changed.
    context = start()
    assert context == first
    while code("cuMemAlloc_v2", byref(c_uint64()), 2 * MIB) == SUCCESS:
        pass
    full = books()
    assert memory_info()[0] < cost
    assert code("cuCtxCreate_v2", byref(c_uint64()), 0, 0) == OUT_OF_MEMORY
    assert books() == full


def virtual_memory():
    """A physical handle lives until references and mappings are both gone."""
    start()
    context = now("physical")
    base = out("cuMemAddressReserve", 16 * MIB, 0, 0, 0)
    assert base % (2 * MIB) == 0 and now("driver") == 0
    properties = AllocationProperties(1, 0, Location(1, 0), None, 0)
    assert code("cuMemCreate", byref(c_uint64()), 3 * MIB + 5, byref(properties), 0) == INVALID_VALUE
    handle = physical(4 * MIB)
    assert (now("vmm"), now("physical")) == (4 * MIB, context + 4 * MIB)
    must("cuMemMap", base, 4 * MIB, 0, handle, 0)
    assert code("cuMemMap", base + 2 * MIB, 4 * MIB, 0, handle, 0) == INVALID_VALUE, "overlaps"
    assert code("cuMemMap", base + 14 * MIB, 4 * MIB, 0, handle, 0) == INVALID_VALUE
    assert code("cuMemcpyHtoD_v2", base, b"abc", 3) == INVALID_VALUE, "no access yet"
    assert allow(base, 4 * MIB) == SUCCESS
    must("cuMemcpyHtoD_v2", base + 2 * MIB, b"hello", 5)
    # Mapped twice: the same bytes at two addresses.
    must("cuMemMap", base + 8 * MIB, 4 * MIB, 0, handle, 0)
    assert allow(base + 8 * MIB, 4 * MIB, flags=1) == SUCCESS
    assert read_back(base + 10 * MIB, 5) == b"hello"
    assert code("cuMemsetD8_v2", base + 8 * MIB, 0, 1) == INVALID_VALUE, "read only"
    assert now("vmm") == 4 * MIB
    retained = out("cuMemRetainAllocationHandle", base)
    assert retained == handle
    must("cuMemRelease", handle)
    must("cuMemUnmap", base, 4 * MIB)
    must("cuMemRelease", handle)
    assert code("cuMemRelease", handle) == INVALID_VALUE
    assert now("vmm") == 4 * MIB, "one mapping is left"
    assert code("cuMemAddressFree", base, 16 * MIB) == INVALID_VALUE, "still mapped"
    assert code("cuMemUnmap", base + 8 * MIB, 2 * MIB) == INVALID_VALUE, "not a whole mapping"
    must("cuMemUnmap", base + 8 * MIB, 4 * MIB)
    assert (now("vmm"), now("physical")) == (0, context)
    # One unmap and one set-access over several mappings; the handles outlive the mappings.
    handles = [physical(2 * MIB) for _ in range(3)]
    for index, one in enumerate(handles):
        must("cuMemMap", base + index * 2 * MIB, 2 * MIB, 0, one, 0)
    assert allow(base, 6 * MIB) == SUCCESS
    must("cuMemsetD8_v2", base + MIB, 7, 4 * MIB)
    assert read_back(base + 5 * MIB - 2, 4) == b"\7\7\0\0"
    must("cuMemUnmap", base, 6 * MIB)
    assert now("vmm") == 6 * MIB
    # Out to a file descriptor and back: one more reference, no more bytes.
    shared = physical(2 * MIB, handle_types=1)
    descriptor = c_int()
    must("cuMemExportToShareableHandle", byref(descriptor), shared, 1, 0)
    same = out("cuMemImportFromShareableHandle", c_void_p(descriptor.value), 1)
    os.close(descriptor.value)
    assert same == shared and now("vmm") == 8 * MIB
    must("cuMemRelease", same)
    assert now("vmm") == 8 * MIB
    must("cuMemRelease", shared)
    for one in handles:
        must("cuMemRelease", one)
    must("cuMemAddressFree", base, 16 * MIB)
    assert (now("vmm"), now("physical"), peak("vmm")) == (0, context, 8 * MIB)
    free, _ = memory_info()
    assert code("cuMemCreate", byref(c_uint64()), free + 2 * MIB, byref(properties), 0) == OUT_OF_MEMORY


def pools():
    """Pools reserve chunks, hand out parts, shrink to their threshold when synchronised."""
    start()
    context = now("physical")
    default = out("cuDeviceGetDefaultMemPool", 0)
    assert out("cuDeviceGetMemPool", 0) == default

    def attribute(pool, which):
        value = c_uint64()
        must("cuMemPoolGetAttribute", pool, which, byref(value))
        return value.value

    threshold, reserved, reserved_high, used, used_high = 4, 5, 6, 7, 8
    a = out("cuMemAllocAsync", 1000, 0)
    b = out("cuMemAllocAsync_ptsz", 2 * MIB, 2)
    assert now("async") == attribute(default, used) == 1000 + 2 * MIB
    assert attribute(default, reserved) == 32 * MIB == now("physical") - context
    must("cuMemcpyHtoD_v2", b, b"pool", 4)
    assert read_back(b, 4) == b"pool"
    assert out_pointer_attribute(a, 17) == default
    # Freed memory stays reserved until a synchronisation, and is used again until then.
    must("cuMemFreeAsync_ptsz", b, 2)
    must("cuMemFreeAsync", a, 0)
    assert (now("async"), attribute(default, used), attribute(default, reserved)) == (0, 0, 32 * MIB)
    again = out("cuMemAllocAsync", 1000, 0)
    assert again == a
    must("cuMemFreeAsync", again, 0)
    must("cuStreamSynchronize", 0)
    assert (attribute(default, reserved), now("physical")) == (0, context)
    assert attribute(default, reserved_high) == 32 * MIB
    assert attribute(default, used_high) == 1000 + 2 * MIB
    must("cuMemPoolSetAttribute", default, used_high, byref(c_uint64(0)))
    assert attribute(default, used_high) == 0
    # A threshold keeps memory; trimming does not mind it.
    must("cuMemPoolSetAttribute", default, threshold, byref(c_uint64((1 << 64) - 1)))
    must("cuMemFreeAsync", out("cuMemAllocAsync", 40 * MIB, 0), 0)
    must("cuCtxSynchronize")
    assert attribute(default, reserved) == 64 * MIB
    must("cuMemPoolTrimTo", default, 1)
    assert attribute(default, reserved) == 64 * MIB, "no less than that is kept"
    # A shortage elsewhere takes what pools hold unused.
    free, _ = memory_info()
    must("cuMemFree_v2", out("cuMemAlloc_v2", free + 64 * MIB))
    assert attribute(default, reserved) == 0
    must("cuMemFreeAsync", out("cuMemAllocAsync", 1, 0), 0)
    must("cuMemPoolTrimTo", default, 0)
    assert now("physical") == context
    # cuMemFree waits for the device, so the pool shrinks; what it freed still counts as used.
    must("cuMemPoolSetAttribute", default, threshold, byref(c_uint64(0)))
    must("cuMemFree_v2", out("cuMemAllocAsync", 1000, 0))
    assert (now("async"), attribute(default, used), attribute(default, reserved)) == (0, 1000, 0)
    # A pool of one's own, destroyed while its memory lives.
    properties = PoolProperties(1, 0, Location(1, 0), None, 64 * MIB)
    own = out("cuMemPoolCreate", byref(properties))
    pointer = out("cuMemAllocFromPoolAsync", 33 * MIB, own, 0)
    assert now("physical") == context + 64 * MIB
    place = byref(c_uint64())
    assert code("cuMemAllocFromPoolAsync", place, 33 * MIB, own, 0) == OUT_OF_MEMORY
    must("cuDeviceSetMemPool", 0, own)
    must("cuMemPoolDestroy", own)
    assert out("cuDeviceGetMemPool", 0) == default
    assert code("cuMemPoolTrimTo", own, 0) == INVALID_VALUE
    assert now("async") == 33 * MIB
    must("cuMemFreeAsync", pointer, 0)
    assert (now("async"), now("physical")) == (0, context)
    assert code("cuMemPoolDestroy", default) == INVALID_VALUE


def out_pointer_attribute(pointer, attribute):
    """cuPointerGetAttribute as a 64-bit word."""
    value = c_uint64(0)
    must("cuPointerGetAttribute", byref(value), attribute, pointer)
    return value.value


def pointers():
    """What a pointer is: memory type, device, range, identity."""
    context = start()
    device, managed = out("cuMemAlloc_v2", 1000), out("cuMemAllocManaged", 2000, 1)
    host = out("cuMemHostAlloc", 3000, 1)
    assert [out_pointer_attribute(p, 2) for p in (device, managed, host)] == [2, 2, 1]
    assert [out_pointer_attribute(p, 8) for p in (device, managed, host)] == [0, 1, 0]
    assert out_pointer_attribute(device, 1) == context
    assert out_pointer_attribute(device + 500, 11) == device
    assert out_pointer_attribute(device + 500, 12) == 1000
    assert out_pointer_attribute(host + 5, 4) == host + 5
    assert len({out_pointer_attribute(p, 7) for p in (device, managed, host)}) == 3
    assert out("cuMemHostGetDevicePointer_v2", host, 0) == host
    assert out("cuMemHostGetFlags", host) == 1
    base, size = c_uint64(), c_size_t()
    must("cuMemGetAddressRange_v2", byref(base), byref(size), device + 999)
    assert (base.value, size.value) == (device, 1000)
    assert code("cuMemGetAddressRange_v2", byref(base), byref(size), device + 1000) == NOT_FOUND
    assert code("cuPointerGetAttribute", byref(base), 2, 4096) == INVALID_VALUE
    kinds = (ctypes.c_uint32 * 2)(2, 9)
    values = [c_uint64(7), c_uint64(7)]
    places = (c_void_p * 2)(*(ctypes.addressof(v) for v in values))
    must("cuPointerGetAttributes", 2, kinds, places, 4096)
    assert [v.value & 0xFFFFFFFF for v in values] == [0, 2**32 - 2]
    # Registered memory is the program's own: a range once, and not in `host`.
    mine = ctypes.create_string_buffer(5000)
    must("cuMemHostRegister_v2", mine, 5000, 0)
    assert (now("registered"), now("host")) == (5000, 3000)
    overlapping = c_void_p(ctypes.addressof(mine) + 10)
    assert code("cuMemHostRegister_v2", overlapping, 10, 0) == HOST_MEMORY_ALREADY_REGISTERED
    assert out_pointer_attribute(ctypes.addressof(mine) + 4999, 2) == 1
    must("cuMemHostUnregister", mine)
    assert code("cuMemHostUnregister", mine) == HOST_MEMORY_NOT_REGISTERED
    assert now("registered") == 0 and mine.raw == bytes(5000)


def two_devices():
    """Each thread's current context chooses the device; books are apart."""
    import threading

    first = start(0)
    second = out("cuDevicePrimaryCtxRetain", 1)
    assert books(0)["uuid"] != books(1)["uuid"]
    out("cuMemAlloc_v2", 1000)
    must("cuCtxPushCurrent_v2", second)
    on_second = out("cuMemAlloc_v2", 2000)
    assert (now("device", 0), now("device", 1)) == (1000, 2000)
    assert memory_info()[1] == books(1)["total_bytes"] != books(0)["total_bytes"]
    stream = out("cuStreamCreate", 0)
    must("cuCtxPopCurrent_v2", None)
    assert out("cuCtxGetCurrent") == first
    # Asynchronous memory comes from the stream's device, not from the current one.
    pointer = out("cuMemAllocAsync", 500, stream)
    assert (now("async", 0), now("async", 1)) == (0, 500)
    must("cuMemFreeAsync", pointer, stream)
    # Memory is freed on its own device, whatever is current.
    must("cuMemFree_v2", on_second)
    assert (now("device", 0), now("device", 1)) == (1000, 0)
    handle = physical(2 * MIB, device=1)
    assert (now("vmm", 0), now("vmm", 1)) == (0, 2 * MIB)
    must("cuMemRelease", handle)

    seen = []

    def other():
        seen.append(out("cuCtxGetCurrent"))
        must("cuCtxSetCurrent", second)
        out("cuMemAlloc_v2", 3000)
        seen.append(out("cuCtxGetDevice", kind=c_int))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen == [0, 1] and out("cuCtxGetCurrent") == first
    assert (now("device", 0), now("device", 1)) == (1000, 3000)
    # Peer copies and access.
    assert out("cuDeviceCanAccessPeer", 0, 1, kind=c_int) == 1
    must("cuCtxEnablePeerAccess", second, 0)
    assert code("cuCtxEnablePeerAccess", second, 0) == PEER_ACCESS_ALREADY_ENABLED
    must("cuCtxDisablePeerAccess", second)
    assert code("cuCtxDisablePeerAccess", second) == PEER_ACCESS_NOT_ENABLED
    here, there = out("cuMemAlloc_v2", 100), c_uint64()
    must("cuCtxPushCurrent_v2", second)
    must("cuMemAlloc_v2", byref(there), 100)
    must("cuCtxPopCurrent_v2", None)
    must("cuMemcpyHtoD_v2", here, b"peer", 4)
    must("cuMemcpyPeer", there.value, second, here, first, 4)
    assert read_back(there.value, 4) == b"peer"
    must("cuMemFree_v2", here)
    # The end of one device is not the other's.
    must("cuDevicePrimaryCtxReset_v2", 1)
    assert (now("device", 0), now("physical", 1)) == (1000, 0)


def visible():
    """CUDA_VISIBLE_DEVICES=1 of two: ordinal 0 is the second card."""
    start(0)
    assert out("cuDeviceGetCount", kind=c_int) == 1
    assert books(0)["uuid"].endswith("0001")
    assert books(0)["total_bytes"] == 2 * GIB
    assert code("cuDeviceGet", byref(c_int()), 1) == INVALID_DEVICE


def forked():
    """A forked child of an initialised process has no driver; one forked before has its own."""

    def child(check):
        pid = os.fork()
        if pid == 0:
            ok = False
            try:
                ok = check()
            finally:
                os._exit(0 if ok else 1)
        assert os.waitpid(pid, 0)[1] == 0

    child(lambda: start() and out("cuMemAlloc_v2", 100) and now("device") == 100)
    start()
    out("cuMemAlloc_v2", 100)
    place = byref(c_uint64())
    child(lambda: code("cuMemAlloc_v2", place, 100) == NOT_INITIALIZED)
    child(lambda: code("cuInit", 0) == NOT_INITIALIZED)
    assert now("device") == 100


def shared():
    """Memory of one process, opened by another, is the same memory, and counted once."""
    import subprocess

    start()
    small, large = out("cuMemAlloc_v2", 100), out("cuMemAlloc_v2", 3 * MIB)
    for pointer in (small, large):
        must("cuMemcpyHtoD_v2", pointer + 50, b"parent", 6)
    lines = []
    for pointer in (small, large):
        handle = IpcHandle()
        must("cuIpcGetMemHandle", byref(handle), pointer)
        lines.append(bytes(ctypes.string_at(byref(handle), 64)).hex())
    assert read_back(large + 50, 6) == b"parent", "contents survive the sharing"
    done = subprocess.run([sys.executable, __file__, "opened", *lines])
    assert done.returncode == 0
    for pointer in (small, large):
        assert read_back(pointer + 50, 6) == b"child!"
    # In the same process NVIDIA's driver refuses.
    handle = IpcHandle.from_buffer_copy(bytes.fromhex(lines[1]))
    place = c_uint64()
    LIBRARY.cuIpcOpenMemHandle_v2.argtypes = [c_void_p, IpcHandle, ctypes.c_uint32]
    assert LIBRARY.cuIpcOpenMemHandle_v2(byref(place), handle, 1) == INVALID_CONTEXT
    assert code("cuIpcCloseMemHandle", large) == INVALID_VALUE


def opened(*handles):
    """The other process of `shared`."""
    start()
    LIBRARY.cuIpcOpenMemHandle_v2.argtypes = [c_void_p, IpcHandle, ctypes.c_uint32]
    for text in handles:
        handle, place = IpcHandle.from_buffer_copy(bytes.fromhex(text)), c_uint64()
        assert LIBRARY.cuIpcOpenMemHandle_v2(byref(place), handle, 1) == SUCCESS
        assert read_back(place.value + 50, 6) == b"parent"
        must("cuMemcpyHtoD_v2", place.value + 50, b"child!", 6)
        assert now("driver") == 0
        assert code("cuMemFree_v2", place.value) == INVALID_VALUE
        must("cuIpcCloseMemHandle", place.value)


def callbacks():
    """Host functions run once, and may themselves call the driver."""
    start()
    stream = out("cuStreamCreate", 1)
    seen = []
    function = ctypes.CFUNCTYPE(None, c_void_p)(lambda data: seen.append((data, now("device"))))
    callback = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_void_p)(
        lambda at, result, data: seen.append((at, result, data))
    )
    must("cuLaunchHostFunc", stream, function, 5)
    must("cuStreamAddCallback", stream, callback, 6, 0)
    assert seen == [(5, 0), (stream, 0, 6)]
    capturing = c_int(9)
    must("cuStreamIsCapturing", stream, byref(capturing))
    assert capturing.value == 0
    must("cuStreamDestroy_v2", stream)
    assert code("cuStreamQuery", stream) == INVALID_HANDLE


def check_refused():
    """The table by which newer runtimes check that a driver is NVIDIA's own is not answered."""
    must("cuInit", 0)
    table = c_void_p(1)
    uuid = Uuid.of("d4082055-bde6-704b-8d34-ba123c66e1f2")
    assert code("cuGetExportTable", byref(table), byref(uuid)) == INVALID_VALUE
    assert table.value is None
    unknown = Uuid.of("00000000-0000-0000-0000-000000000000")
    assert code("cuGetExportTable", byref(table), byref(unknown)) == INVALID_VALUE
    runtime = Uuid.of("6bd5fb6c-5bf4-e74a-8987-d93912fd9df9")
    must("cuGetExportTable", byref(table), byref(runtime))
    assert table.value


def settings():
    """The driver reports the values in the environment of the test."""
    start()
    assert out("cuDriverGetVersion", kind=c_int) == 12040
    assert out("cuDeviceGetAttribute", 75, 0, kind=c_int) == 8
    assert out("cuDeviceGetAttribute", 76, 0, kind=c_int) == 6
    assert now("physical") == 64 * MIB
    free, total = memory_info()
    assert (total, free) == (3 * GIB // 2, 3 * GIB // 2 - 64 * MIB - 256 * MIB)
    out("cuMemAlloc_v2", 40 * KIB)
    assert now("physical") == 64 * MIB + 64 * KIB


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
