"""Checks of memory of the card that the simulated driver takes implicitly: modules, libraries, limits, stacks.
`sim_costs.py NAME` runs one; module and context sizes are the defaults."""

import ctypes
import sys
from ctypes import byref, c_size_t, c_uint32, c_uint64

from sim_cuda import *  # noqa: F403  (a small vocabulary, all of it used)

IMAGE = ctypes.create_string_buffer(64)
DEEP = b"""// kernels with a stack
.version 6.3
.visible .entry deep() { .local .align 4 .b8 frame[2048]; ret; }
.visible .entry deeper() { .local .b32 frame[262144]; ret; }
"""
VARIABLE = b".version 6.3\n.visible .global .align 8 .b8 large[5242880];\n.visible .entry kernel() { ret; }\n"
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
    """Stacks cost what is beyond their first size at once; heap and printf buffer cost nothing."""
    start()
    context, _, _ = costs()

    def beyond():
        return costs()[0] - context

    def limit(which):
        return out("cuCtxGetLimit", which, kind=c_size_t)

    for which, first in ((MALLOC_HEAP, 8 * MIB), (PRINTF_FIFO, 8 * MIB + 256 * KIB)):
        assert limit(which) == first
        must("cuCtxSetLimit", which, first + 64 * MIB)
        assert (limit(which), beyond()) == (first + 64 * MIB, 0)
    assert code("cuCtxSetLimit", 99, 1) == UNSUPPORTED_LIMIT

    each = 132 * 2048
    must("cuCtxSetLimit", STACK, 1024 + 512)
    assert beyond() == 512 * each == 132 * MIB
    must("cuCtxSetLimit", STACK, 1024 + 256)
    assert beyond() == 66 * MIB, "lower at once"
    before = books()
    for too_much in (1 << 20, (1 << 64) - 1):
        assert code("cuCtxSetLimit", STACK, too_much) == OUT_OF_MEMORY
    assert (books(), limit(STACK)) == (before, 1024 + 256)
    kernel = out("cuModuleGetFunction", out("cuModuleLoadData", IMAGE), b"kernel")
    assert launch(kernel) == SUCCESS and beyond() == 66 * MIB
    # A kernel that needs a larger stack raises the limit when it is launched.
    module = out("cuModuleLoadData", DEEP)
    deep, deeper = (out("cuModuleGetFunction", module, name) for name in (b"deep", b"deeper"))
    assert (beyond(), out("cuFuncGetAttribute", 3, deep, kind=ctypes.c_int)) == (66 * MIB, 2048)
    assert launch(deep) == SUCCESS
    assert (limit(STACK), beyond()) == (2048, 264 * MIB)
    assert launch(kernel) == SUCCESS and beyond() == 264 * MIB
    before = books()
    assert launch(deeper) == OUT_OF_MEMORY and (books(), limit(STACK)) == (before, 2048)
    must("cuCtxSetLimit", STACK, 1024)
    assert beyond() == 0 and launch(kernel) == SUCCESS
    # It is the context's, and goes with it.
    must("cuCtxSetLimit", STACK, 2048)
    must("cuDevicePrimaryCtxReset_v2", 0)
    assert now("context") == now("physical") == 0
    assert peak("context") == context + 264 * MIB


def variables():
    """A module costs what its text declares, if that is more; so are its variables."""
    start()
    before = now("physical")
    module = out("cuModuleLoadData", VARIABLE)
    assert (now("module"), now("physical")) == (6 * MIB, before + 6 * MIB)
    pointer, size = c_uint64(), c_size_t()
    for name, bytes_of in ((b"large", 5 * MIB), (b"unknown", 64 * KIB)):
        must("cuModuleGetGlobal_v2", byref(pointer), byref(size), module, name)
        assert size.value == bytes_of
        must("cuMemsetD8_v2", pointer.value, 1, bytes_of)
    must("cuModuleUnload", module)
    assert (now("module"), now("physical")) == (0, before)
    library = out("cuLibraryLoadData", VARIABLE, None, None, 0, None, None, 0)
    assert now("module") == 0
    out("cuLibraryGetModule", library)
    assert now("module") == 6 * MIB
    must("cuLibraryUnload", library)
    assert now("module") == 0


def kinds():
    """Resident managed memory and pinned memory have separate figures."""
    start()
    context = now("physical")
    managed = out("cuMemAllocManaged", 10 * MIB + 1, 1)
    assert (now("resident"), now("physical")) == (0, context)
    # A kernel may touch all of it, which at first costs the context 64 MiB.
    kernel = out("cuModuleGetFunction", out("cuModuleLoadData", IMAGE), b"kernel")
    assert launch(kernel) == SUCCESS
    assert [now(kind) for kind in ("resident", "touched", "context", "module")] == [12 * MIB, 64 * MIB, context, 2 * MIB]
    context += 66 * MIB
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
