"""Checks of what the simulated driver takes of the card without being asked for it by name: modules,
libraries, limits, stacks. `sim_costs.py NAME` runs one; module and context costs are the defaults'."""

import ctypes
import sys
from ctypes import byref, c_size_t, c_uint32, c_uint64

from sim_cuda import *  # noqa: F403  (a small vocabulary, all of it used)

IMAGE = ctypes.create_string_buffer(64)
UNSUPPORTED_LIMIT = 215
STACK, PRINTF_FIFO, MALLOC_HEAP = 0, 1, 2


def launch(function, stream=0):
    """Launches a kernel of one thread; the result code."""
    ones = [c_uint32(1)] * 6
    return LIBRARY.cuLaunchKernel(
        c_uint64(function), *ones, c_uint32(0), c_uint64(stream), None, None
    )


def costs():
    """Physical bytes of contexts, of modules, and the rest, which the card must have given."""
    free, total = memory_info()
    assert total - free == now("physical")
    return now("context"), now("module"), now("physical") - now("context") - now("module")


def modules():
    """A module costs its bytes from its load to its unload, or to the end of its context."""
    start()
    context, none, rest = costs()
    assert (context, none, rest) == (books()["context_bytes"], 0, 0)
    first, second = (out("cuModuleLoadData", IMAGE) for _ in range(2))
    assert costs() == (context, 4 * MIB, 0)
    assert launch(out("cuModuleGetFunction", first, b"kernel")) == SUCCESS
    assert costs() == (context, 4 * MIB, 0), "loaded already"
    must("cuModuleUnload", first)
    assert costs() == (context, 2 * MIB, 0)
    assert code("cuModuleUnload", first) == INVALID_HANDLE
    # A linker is no module.
    link = c_uint64()
    must("cuLinkCreate_v2", 0, None, None, byref(link))
    assert costs() == (context, 2 * MIB, 0)
    must("cuLinkDestroy", link.value)
    # The end of a context takes its modules, and not another's.
    other = out("cuCtxCreate_v2", 0, 0)
    out("cuModuleLoadData", IMAGE)
    assert costs() == (2 * context, 4 * MIB, 0)
    must("cuCtxDestroy_v2", other)
    assert costs() == (context, 2 * MIB, 0)
    # One that does not fit is refused, with nothing changed.
    filled = out("cuMemAlloc_v2", memory_info()[0])
    before = books()
    place = c_uint64(77)
    assert code("cuModuleLoadData", byref(place), IMAGE) == OUT_OF_MEMORY
    assert (books(), place.value) == (before, 77)
    must("cuMemFree_v2", filled)
    must("cuDevicePrimaryCtxReset_v2", 0)
    assert (now("module"), now("context"), now("physical"), peak("module")) == (0, 0, 0, 4 * MIB)
    assert code("cuModuleUnload", second) == INVALID_HANDLE


def libraries(loading="LAZY"):
    """A library costs nothing until one of its kernels is used; then once in each context."""
    must("cuInit", 0)
    early = out("cuLibraryLoadData", IMAGE, None, None, 0, None, None, 0)
    assert now("module") == 0, "there is no context"
    context = start()
    assert now("module") == 0
    eager = 2 * MIB if loading == "EAGER" else 0
    assert out("cuModuleGetLoadingMode", kind=c_uint32) == (1 if eager else 2)
    library = out("cuLibraryLoadData", IMAGE, None, None, 0, None, None, 0)
    kernel = out("cuLibraryGetKernel", library, b"kernel")
    assert now("module") == eager
    assert out("cuFuncIsLoaded", kernel, kind=c_uint32) == (1 if eager else 0)
    function = out("cuKernelGetFunction", kernel)
    assert now("module") == 2 * MIB
    assert out("cuFuncIsLoaded", kernel, kind=c_uint32) == 1
    assert launch(function) == SUCCESS == launch(kernel)
    out("cuLibraryGetModule", library)
    assert now("module") == 2 * MIB
    # By a launch alone, on a stream of another context.
    second = out("cuCtxCreate_v2", 0, 0)
    stream = out("cuStreamCreate", 0)
    must("cuCtxPopCurrent_v2", None)
    assert out("cuCtxGetCurrent") == context and now("module") == 2 * MIB
    assert launch(kernel, stream) == SUCCESS
    assert now("module") == 4 * MIB
    out("cuLibraryGetModule", early)
    assert now("module") == 6 * MIB
    must("cuCtxDestroy_v2", second)
    assert now("module") == 4 * MIB
    # A launch that needs memory which is not there fails, and can be made again.
    late = out("cuLibraryLoadData", IMAGE, None, None, 0, None, None, 0)
    late = out("cuLibraryGetKernel", late, b"kernel")
    before = now("module")
    filled = out("cuMemAlloc_v2", memory_info()[0])
    assert launch(late) == (SUCCESS if eager else OUT_OF_MEMORY)
    assert now("module") == before
    must("cuMemFree_v2", filled)
    assert launch(late) == SUCCESS
    assert now("module") == 6 * MIB
    must("cuLibraryUnload", library)
    assert now("module") == 4 * MIB
    assert launch(kernel) == INVALID_HANDLE
    must("cuDevicePrimaryCtxReset_v2", 0)
    assert now("module") == now("physical") == 0


def limits():
    """Heap and printf buffer cost what is beyond their first size at once, stacks with a launch."""
    start()
    context, _, _ = costs()

    def beyond():
        return costs()[0] - context

    assert out("cuCtxGetLimit", MALLOC_HEAP, kind=c_size_t) == 8 * MIB
    for limit, first in ((MALLOC_HEAP, 8 * MIB), (PRINTF_FIFO, MIB)):
        must("cuCtxSetLimit", limit, first)
        assert beyond() == 0
        must("cuCtxSetLimit", limit, first + 1)
        assert beyond() == 2 * MIB, "whole pages"
        must("cuCtxSetLimit", limit, first + 64 * MIB)
        assert beyond() == 64 * MIB
        assert out("cuCtxGetLimit", limit, kind=c_size_t) == first + 64 * MIB
        must("cuCtxSetLimit", limit, first // 2)
        assert beyond() == 0
    assert code("cuCtxSetLimit", 99, 1) == UNSUPPORTED_LIMIT
    must("cuCtxSetLimit", MALLOC_HEAP, 72 * MIB)
    free, _ = memory_info()
    before = books()
    assert code("cuCtxSetLimit", MALLOC_HEAP, 72 * MIB + free + 1) == OUT_OF_MEMORY
    assert code("cuCtxSetLimit", MALLOC_HEAP, (1 << 64) - 1) == OUT_OF_MEMORY
    assert books() == before
    assert out("cuCtxGetLimit", MALLOC_HEAP, kind=c_size_t) == 72 * MIB
    must("cuCtxSetLimit", MALLOC_HEAP, 0)

    kernel = out("cuModuleGetFunction", out("cuModuleLoadData", IMAGE), b"kernel")
    each = 132 * 2048
    must("cuCtxSetLimit", STACK, 1024 + 512)
    assert beyond() == 0, "not before the launch"
    assert launch(kernel) == SUCCESS
    assert beyond() == 512 * each == 132 * MIB
    assert launch(kernel) == SUCCESS
    assert beyond() == 132 * MIB
    must("cuCtxSetLimit", STACK, 1024 + 256)
    assert beyond() == 66 * MIB, "lower at once"
    must("cuCtxSetLimit", STACK, 1 << 20)
    assert launch(kernel) == OUT_OF_MEMORY
    assert beyond() == 66 * MIB
    must("cuCtxSetLimit", STACK, 1024)
    assert beyond() == 0 and launch(kernel) == SUCCESS
    # It is the context's, and goes with it.
    must("cuCtxSetLimit", PRINTF_FIFO, 65 * MIB)
    must("cuDevicePrimaryCtxReset_v2", 0)
    assert now("context") == now("physical") == 0
    assert peak("context") == context + 132 * MIB


def kinds():
    """Resident managed memory and pinned memory have figures of their own."""
    start()
    context = now("physical")
    managed = out("cuMemAllocManaged", 10 * MIB + 1, 1)
    assert (now("resident"), now("physical")) == (12 * MIB, context + 12 * MIB)
    must("cuMemPrefetchAsync", managed, 10 * MIB, -1, 0)
    assert (now("resident"), now("managed"), now("physical")) == (0, 10 * MIB + 1, context)
    must("cuMemPrefetchAsync", managed, 10 * MIB, 0, 0)
    assert now("resident") == 12 * MIB
    # Other allocations push it out.
    filled = out("cuMemAlloc_v2", memory_info()[0])
    more = out("cuMemAlloc_v2", 2 * MIB)
    assert (now("resident"), peak("resident")) == (0, 12 * MIB)
    for pointer in (filled, more, managed):
        must("cuMemFree_v2", pointer)
    assert (now("resident"), now("physical")) == (0, context)
    host = out("cuMemAllocHost_v2", 5000)
    mine = ctypes.create_string_buffer(3000)
    must("cuMemHostRegister_v2", mine, 3000, 0)
    must("cuMemFreeHost", host)
    assert (now("pinned"), peak("pinned"), now("registered")) == (3000, 8000, 3000)
    must("cuMemHostUnregister", mine)
    assert (now("pinned"), now("physical")) == (0, context)
    row = books()["pinned"]
    assert (row["allocations"], row["frees"]) == (2, 2)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
