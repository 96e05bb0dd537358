"""Checks of the simulated driver's graphs and stream capture; `sim_graphs.py NAME` runs one of them. They need only
ctypes."""

import ctypes
import sys
import threading
from ctypes import Structure, byref, c_int, c_size_t, c_uint32, c_uint64, c_void_p

from sim_cuda import *  # noqa: F403  (a small vocabulary, all of it used)

ILLEGAL_STATE, ILLEGAL_ADDRESS = 401, 700
UNSUPPORTED, INVALIDATED, MERGE, UNMATCHED, UNJOINED, ISOLATION, IMPLICIT = range(900, 907)
CAPTURED_EVENT, WRONG_THREAD, UPDATE_FAILURE = 907, 908, 910
GLOBAL, THREAD_LOCAL, RELAXED = range(3)
AUTO_FREE = 1
KERNEL, COPY, FILL, HOST, CHILD, EMPTY, WAIT, RECORD = range(8)
ALLOCATE, FREE = 10, 11


class AllocNode(Structure):
    """CUDA_MEM_ALLOC_NODE_PARAMS, with CUmemPoolProps laid out flat."""

    _fields_ = [
        ("kind", c_uint32),
        ("handle_types", c_uint32),
        ("location", Location),
        ("pool_rest", ctypes.c_char * 72),
        ("access", c_void_p),
        ("access_count", c_size_t),
        ("bytes", c_size_t),
        ("pointer", c_uint64),
    ]


class FillNode(Structure):
    """CUDA_MEMSET_NODE_PARAMS."""

    _fields_ = [
        ("to", c_uint64),
        ("pitch", c_size_t),
        ("value", c_uint32),
        ("element_bytes", c_uint32),
        ("columns", c_size_t),
        ("rows", c_size_t),
    ]


class Node(Structure):
    """CUgraphNodeParams."""

    _fields_ = [("kind", c_uint32), ("zero", c_uint32 * 3), ("words", c_uint64 * 29), ("end", c_uint64)]


def handles(*values):
    """An array of handles, and how many."""
    return (c_uint64 * len(values))(*values), len(values)


def listed(name, subject):
    """The nodes that a function lists."""
    count = c_size_t()
    must(name, subject, None, byref(count))
    room = (c_uint64 * (count.value + 1))(*[7] * (count.value + 1))
    room_count = c_size_t(count.value + 1)
    must(name, subject, room, byref(room_count))
    assert room_count.value == count.value and room[count.value] == 0
    return list(room)[: count.value]


def kind_of(node):
    """CUgraphNodeType."""
    kind = c_int()
    must("cuGraphNodeGetType", node, byref(kind))
    return kind.value


def kinds(graph):
    """What the nodes of a graph do, in the order in which they were made."""
    return [kind_of(node) for node in listed("cuGraphGetNodes", graph)]


def add_fill(graph, to, value, bytes_, *after):
    """A node that fills bytes."""
    parameters = FillNode(to, 0, value, 1, bytes_, 1)
    return out("cuGraphAddMemsetNode", graph, *handles(*after), byref(parameters), 0)


def add_allocation(graph, bytes_, *after):
    """An allocation node: its handle and address."""
    parameters = AllocNode(1, 0, Location(1, 0))
    parameters.bytes = bytes_
    node = out("cuGraphAddMemAllocNode", graph, *handles(*after), byref(parameters))
    return node, parameters.pointer


def add_free(graph, pointer, *after):
    """A free node."""
    return out("cuGraphAddMemFreeNode", graph, *handles(*after), pointer)


def instantiate(graph, flags=0):
    """An executable."""
    return out("cuGraphInstantiateWithFlags", graph, flags)


def graph_memory():
    """What the device keeps for graphs: used, most used, reserved, most reserved."""
    figures = []
    for attribute in range(4):
        value = c_uint64()
        must("cuDeviceGetGraphMemAttribute", 0, attribute, byref(value))
        figures.append(value.value)
    return figures


def begin(stream, mode=GLOBAL):
    """Begins a capture."""
    must("cuStreamBeginCapture_v2", stream, mode)


def end(stream):
    """Ends a capture; the graph."""
    graph = c_uint64(7)
    must("cuStreamEndCapture", stream, byref(graph))
    return graph.value


def ends_with(stream, expected):
    """Ends a capture that gives an error and no graph."""
    graph = c_uint64(7)
    assert code("cuStreamEndCapture", stream, byref(graph)) == expected
    assert graph.value == 0


def status(stream):
    """CUstreamCaptureStatus."""
    value = c_int(9)
    must("cuStreamIsCapturing", stream, byref(value))
    return value.value


def nodes():
    """Graphs made by hand: their shape, and what they do when they are launched."""
    start()
    one, two = out("cuMemAlloc_v2", 100), out("cuMemAlloc_v2", 100)
    must("cuMemsetD8_v2", one, 1, 100)
    must("cuMemsetD8_v2", two, 2, 100)
    graph = out("cuGraphCreate", 0)
    fill = add_fill(graph, one, 5, 50)
    calls = []
    function = ctypes.CFUNCTYPE(None, c_void_p)(lambda data: calls.append((data, read_back(one, 1))))
    host = (c_uint64 * 2)(ctypes.cast(function, c_void_p).value, 9)
    call = out("cuGraphAddHostNode", graph, *handles(fill), byref(host))
    last = out("cuGraphAddEmptyNode", graph, *handles(fill, call))
    assert kinds(graph) == [FILL, HOST, EMPTY]
    assert listed("cuGraphGetRootNodes", graph) == [fill]
    assert listed("cuGraphNodeGetDependencies", last) == [fill, call]
    assert listed("cuGraphNodeGetDependentNodes", fill) == [call, last]
    place = byref(c_uint64())
    assert code("cuGraphAddEmptyNode", place, graph, *handles(fill, fill)) == INVALID_VALUE
    assert code("cuGraphAddEmptyNode", place, graph, *handles(1234)) == INVALID_VALUE
    assert code("cuGraphAddEmptyNode", place, 1234, None, 0) == INVALID_VALUE

    # A clone has the same shape; its later changes do not affect the original.
    clone = out("cuGraphClone", graph)
    same = out("cuGraphNodeFindInClone", fill, clone)
    told = FillNode()
    must("cuGraphMemsetNodeGetParams", same, byref(told))
    assert (told.to, told.value, told.columns) == (one, 5, 50)
    told.to = two
    must("cuGraphMemsetNodeSetParams", same, byref(told))
    must("cuGraphDestroyNode", out("cuGraphNodeFindInClone", call, clone))
    assert kinds(clone) == [FILL, EMPTY]

    child = out("cuGraphAddChildGraphNode", graph, *handles(last), clone)
    executable = instantiate(graph)
    assert (calls, read_back(one, 1), read_back(two, 1)) == ([], b"\1", b"\2")
    must("cuGraphLaunch", executable, 0)
    assert calls == [(9, b"\5")]
    assert read_back(one, 51) == b"\5" * 50 + b"\1" and read_back(two, 51) == b"\5" * 50 + b"\2"
    owned = c_uint64()
    must("cuGraphChildGraphNodeGetGraph", child, byref(owned))
    assert owned.value not in (0, clone) and code("cuGraphDestroy", owned.value) == INVALID_VALUE

    # An executable is changed by itself, and as a whole.
    told.to, told.value = two, 7
    must("cuGraphExecMemsetNodeSetParams", executable, fill, byref(told), 0)
    must("cuGraphNodeSetEnabled", executable, fill, 0)
    must("cuGraphLaunch", executable, 0)
    assert read_back(two, 1) == b"\5" and len(calls) == 2
    must("cuGraphNodeSetEnabled", executable, fill, 1)
    must("cuGraphLaunch", executable, 0)
    assert read_back(two, 1) == b"\5", "the child comes last"
    must("cuGraphExecUpdate_v2", executable, graph, byref((c_uint64 * 3)()))
    must("cuMemsetD8_v2", one, 1, 100)
    must("cuGraphLaunch", executable, 0)
    assert read_back(one, 1) == b"\5"
    difference = (c_uint64 * 3)()
    assert code("cuGraphExecUpdate_v2", executable, clone, byref(difference)) == UPDATE_FAILURE
    assert difference[0] & 0xFFFFFFFF == 3 and difference[1] != 0
    must("cuGraphDestroy", graph)
    must("cuGraphLaunch", executable, 0)
    assert len(calls) == 5, "an executable outlives its graph"
    must("cuGraphExecDestroy", executable)
    assert code("cuGraphLaunch", executable, 0) == INVALID_VALUE

    # A circle is refused, and edges come before the order of making.
    early = add_fill(clone, one, 1, 1)
    late = add_fill(clone, one, 2, 1)
    must("cuGraphAddDependencies", clone, *handles(late)[:1], *handles(early))
    executable = instantiate(clone)
    must("cuGraphLaunch", executable, 0)
    assert read_back(one, 1) == b"\1"
    must("cuGraphAddDependencies", clone, *handles(early)[:1], *handles(late))
    assert code("cuGraphInstantiateWithFlags", place, clone, 0) == INVALID_VALUE
    must("cuGraphRemoveDependencies", clone, *handles(late)[:1], *handles(early))
    instantiate(clone)

    # What a launch finds gone is an error of the launch.
    must("cuMemFree_v2", one)
    assert code("cuGraphLaunch", executable, 0) == ILLEGAL_ADDRESS

    # Objects of the program's live as long as graphs and executables hold them.
    ended = []
    destructor = ctypes.CFUNCTYPE(None, c_void_p)(ended.append)
    item = out("cuUserObjectCreate", c_void_p(5), destructor, 1, 1)
    must("cuGraphRetainUserObject", clone, item, 1, 1)
    executable = instantiate(clone)
    must("cuGraphDestroy", clone)
    assert ended == []
    must("cuGraphExecDestroy", executable)
    assert ended == [5]
    assert code("cuUserObjectRelease", item, 1) == INVALID_VALUE


def captured():
    """Work for a captured stream is done by launches, and not before; streams fork and join."""
    start()
    data = out("cuMemAlloc_v2", 100)
    must("cuMemsetD8_v2", data, 1, 100)
    stream, other = out("cuStreamCreate", 1), out("cuStreamCreate", 1)
    fork, join = out("cuEventCreate", 2), out("cuEventCreate", 2)
    source, target = ctypes.create_string_buffer(b"first", 100), ctypes.create_string_buffer(100)
    calls = []
    function = ctypes.CFUNCTYPE(None, c_void_p)(calls.append)
    module = out("cuModuleLoadData", b"any")
    kernel = out("cuModuleGetFunction", module, b"any")

    def launch(at):
        must("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, at, None, None)

    assert status(stream) == 0
    begin(stream)
    assert (status(stream), status(other)) == (1, 0)
    must("cuMemcpyHtoDAsync_v2", data, source, 5, stream)
    must("cuEventRecord", fork, stream)
    must("cuStreamWaitEvent", other, fork, 0)
    assert status(other) == 1
    must("cuMemsetD8Async", data + 5, 3, 5, other)
    launch(other)
    must("cuEventRecord", join, other)
    must("cuLaunchHostFunc", stream, function, 4)
    must("cuStreamWaitEvent", stream, join, 0)

    state, number, graph, tip, count = c_int(), c_uint64(), c_uint64(), c_uint64(), c_size_t()
    must("cuStreamGetCaptureInfo_v2", stream, byref(state), byref(number), byref(graph), byref(tip),
         byref(count))
    assert (state.value, count.value) == (1, 2) and number.value > 0
    tips = (c_uint64 * 2).from_address(tip.value)
    assert [kind_of(node) for node in tips] == [HOST, KERNEL]
    edges = c_uint64()
    must("cuStreamGetCaptureInfo_v3", other, byref(state), None, byref(graph), byref(tip),
         byref(edges), byref(count))
    assert count.value == 1 and c_uint64.from_address(edges.value).value == 0
    # A node made by hand, between those that are captured.
    extra = out("cuGraphAddEmptyNode", graph.value, tips, 2)
    must("cuStreamUpdateCaptureDependencies", stream, *handles(extra), 1)
    must("cuMemcpyDtoHAsync_v2", target, data, 11, stream)
    assert end(stream) == graph.value and status(stream) == status(other) == 0
    assert kinds(graph.value) == [COPY, FILL, KERNEL, HOST, EMPTY, COPY]
    assert listed("cuGraphNodeGetDependencies", listed("cuGraphGetNodes", graph.value)[-1]) == [extra]
    assert (calls, target.raw[:1], read_back(data, 1)) == ([], b"\0", b"\1")

    executable = instantiate(graph.value)
    for text, number in ((b"first", 1), (b"again", 2)):
        source.raw = text.ljust(100, b"\0")
        must("cuGraphLaunch", executable, stream)
        assert target.raw[:11] == text + b"\3" * 5 + b"\1" and calls == [4] * number
    # A launch in a capture is a child; events can be nodes, too.
    begin(stream)
    must("cuGraphLaunch", executable, stream)
    must("cuEventRecordWithFlags", fork, stream, 1)
    must("cuStreamWaitEvent", stream, fork, 1)
    whole = end(stream)
    assert kinds(whole) == [CHILD, RECORD, WAIT]
    timed = out("cuEventCreate", 0)
    must("cuGraphEventRecordNodeSetEvent", listed("cuGraphGetNodes", whole)[1], timed)
    time = ctypes.c_float(-1)
    assert code("cuEventElapsedTime", byref(time), timed, timed) == INVALID_HANDLE
    must("cuGraphLaunch", instantiate(whole), stream)
    assert calls == [4] * 3
    must("cuEventElapsedTime", byref(time), timed, timed)
    assert time.value == 0, "recorded by the launch"
    # The own stream of each thread is one to capture, and is each thread's.
    must("cuStreamBeginCapture_v2_ptsz", 0, THREAD_LOCAL)
    assert status(2) == 1
    seen = []
    asks = threading.Thread(target=lambda: (must("cuCtxSetCurrent", start()), seen.append(status(2))))
    asks.start()
    asks.join()
    assert seen == [0]
    must("cuMemsetD8Async_ptsz", data, 8, 1, 0)
    own = c_uint64()
    must("cuStreamEndCapture_ptsz", 0, byref(own))
    assert kinds(own.value) == [FILL]
    # Into a graph that is there.
    first = listed("cuGraphGetNodes", own.value)[0]
    must("cuStreamBeginCaptureToGraph", stream, own.value, handles(first)[0], None, 1, GLOBAL)
    must("cuMemsetD8Async", data, 9, 1, stream)
    assert end(stream) == own.value
    assert listed("cuGraphNodeGetDependencies", listed("cuGraphGetNodes", own.value)[1]) == [first]


def capture_errors():
    """What may not be done in a capture spoils it, with the real driver's codes."""
    start()
    data, stream, other = out("cuMemAlloc_v2", 100), out("cuStreamCreate", 1), out("cuStreamCreate", 1)
    event, before = out("cuEventCreate", 2), out("cuEventCreate", 2)
    must("cuEventRecord", before, other)
    held = books()
    graph = c_uint64()
    assert code("cuStreamEndCapture", stream, byref(graph)) == ILLEGAL_STATE
    assert code("cuStreamBeginCapture_v2", 0, GLOBAL) == UNSUPPORTED
    assert code("cuStreamBeginCapture_v2", stream, 3) == INVALID_VALUE

    place = byref(c_uint64())
    spoilers = [
        (UNSUPPORTED, "cuStreamSynchronize", stream),
        (UNSUPPORTED, "cuStreamQuery", stream),
        (UNSUPPORTED, "cuCtxSynchronize"),
        (UNSUPPORTED, "cuMemAlloc_v2", place, 100),
        (UNSUPPORTED, "cuMemFree_v2", data),
        (UNSUPPORTED, "cuMemAllocHost_v2", place, 100),
        (UNSUPPORTED, "cuMemsetD8_v2", data, 1, 1),
        (UNSUPPORTED, "cuStreamSynchronize", other),
        (UNSUPPORTED, "cuEventQuery", before),
        (CAPTURED_EVENT, "cuEventQuery", event),
        (CAPTURED_EVENT, "cuEventSynchronize", event),
        (ISOLATION, "cuStreamWaitEvent", stream, before, 0),
    ]
    for expected, *call in spoilers:
        begin(stream)
        must("cuEventRecord", event, stream)
        assert code(*call) == expected, call
        assert status(stream) == 2, call
        assert code("cuMemsetD8Async", data, 1, 1, stream) == INVALIDATED
        ends_with(stream, INVALIDATED)
        assert status(stream) == 0
    # A relaxed capture, or a thread in relaxed mode, may make calls that are merely unsafe.
    begin(stream, RELAXED)
    must("cuMemFree_v2", out("cuMemAlloc_v2", 100))
    end(stream)
    begin(stream)
    mode = c_uint32(RELAXED)
    must("cuThreadExchangeStreamCaptureMode", byref(mode))
    assert mode.value == GLOBAL
    must("cuMemFree_v2", out("cuMemAlloc_v2", 100))
    must("cuThreadExchangeStreamCaptureMode", byref(mode))
    assert mode.value == RELAXED
    end(stream)

    # Streams that were forked must be joined; no capture may wait for another.
    begin(stream)
    must("cuEventRecord", event, stream)
    must("cuStreamWaitEvent", other, event, 0)
    must("cuMemsetD8Async", data, 1, 1, other)
    assert code("cuStreamEndCapture", other, byref(graph)) == UNMATCHED
    ends_with(stream, INVALIDATED)
    begin(stream)
    must("cuEventRecord", event, stream)
    must("cuStreamWaitEvent", other, event, 0)
    must("cuMemsetD8Async", data, 1, 1, other)
    ends_with(stream, UNJOINED)
    begin(stream)
    must("cuEventRecord", event, stream)
    begin(other)
    assert code("cuStreamBeginCapture_v2", other, GLOBAL) == ILLEGAL_STATE
    assert code("cuStreamWaitEvent", other, event, 0) == MERGE
    for one in (stream, other):
        ends_with(one, INVALIDATED)
    # The legacy stream would have to wait for a blocking stream.
    blocking = out("cuStreamCreate", 0)
    begin(blocking)
    assert code("cuStreamIsCapturing", 0, byref(c_int())) == IMPLICIT and status(blocking) == 1
    assert code("cuMemsetD8Async", data, 1, 1, 0) == IMPLICIT
    ends_with(blocking, INVALIDATED)

    # Other threads mind a global capture, and cannot end one that is not relaxed.
    seen = []

    def elsewhere():
        must("cuCtxSetCurrent", start())
        seen.append(code("cuMemAlloc_v2", place, 100))
        seen.append(code("cuStreamEndCapture", stream, byref(graph)))

    for mode in (GLOBAL, THREAD_LOCAL):
        begin(stream, mode)
        worker = threading.Thread(target=elsewhere)
        worker.start()
        worker.join()
        if mode == GLOBAL:
            ends_with(stream, INVALIDATED)
        else:
            end(stream)
    assert seen == [UNSUPPORTED, WRONG_THREAD, SUCCESS, WRONG_THREAD]
    # A stream that is destroyed takes its capture along.
    begin(stream)
    must("cuStreamDestroy_v2", stream)
    must("cuMemsetD8_v2", data, 1, 1)
    assert books()["kinds"]["device"]["current"] == held["kinds"]["device"]["current"] + 100
    # And so does a context that ends.
    stream = out("cuStreamCreate", 1)
    begin(stream)
    must("cuDevicePrimaryCtxReset_v2", 0)
    start()
    assert code("cuStreamEndCapture", stream, byref(graph)) == INVALID_HANDLE
    out("cuMemAlloc_v2", 100)


def memory_nodes():
    """Memory of allocation nodes is live from the launch to the free; pages stay until a trim."""
    start()
    context = now("physical")
    graph = out("cuGraphCreate", 0)
    first, pointer = add_allocation(graph, 3 * MIB)
    second, inner = add_allocation(graph, 1000, first)
    fill = add_fill(graph, pointer, 7, 3 * MIB, first)
    # Between its allocation and its free the program may use the memory, and not free it.
    tries = []
    function = ctypes.CFUNCTYPE(None, c_void_p)(lambda data: tries.append(code("cuMemFree_v2", inner)))
    trying = (c_uint64 * 2)(ctypes.cast(function, c_void_p).value, 0)
    call = out("cuGraphAddHostNode", graph, *handles(second), byref(trying))
    add_free(graph, inner, fill, call)
    assert kinds(graph) == [ALLOCATE, ALLOCATE, FILL, HOST, FREE]
    told = AllocNode()
    must("cuGraphMemAllocNodeGetParams", first, byref(told))
    assert (told.pointer, told.bytes, told.kind, told.location.kind) == (pointer, 3 * MIB, 1, 1)
    executable = instantiate(graph)
    # Nothing is live or reserved before a launch; an upload brings the pages.
    assert (now("graph"), now("physical"), graph_memory()) == (0, context, [0] * 4)
    assert code("cuMemFree_v2", pointer) == INVALID_VALUE
    must("cuGraphUpload", executable, 0)
    assert (now("graph"), now("physical")) == (0, context + 32 * MIB)
    assert graph_memory() == [32 * MIB] * 4, "used is what is reserved"
    must("cuGraphLaunch", executable, 0)
    assert now("graph") == now("driver") == 3 * MIB
    assert peak("graph") == peak("driver") == 3 * MIB + 1000
    assert graph_memory() == [32 * MIB] * 4
    row = books()["kinds"]["graph"]
    assert (row["allocations"], row["frees"]) == (2, 1)
    assert read_back(pointer + 3 * MIB - 1, 1) == b"\7"
    # It is still live: the next launch is refused, and changes nothing.
    before = books()
    assert code("cuGraphLaunch", executable, 0) == INVALID_VALUE
    assert books() == before
    # Memory that a node of the same graph frees cannot be freed by another graph.
    elsewhere = out("cuGraphCreate", 0)
    assert code("cuGraphAddMemFreeNode", byref(c_uint64()), elsewhere, None, 0, inner) == INVALID_VALUE
    assert tries == [INVALID_VALUE]
    must("cuMemFree_v2", pointer)
    assert (now("graph"), now("physical")) == (0, context + 32 * MIB)
    must("cuGraphLaunch", executable, 0)
    must("cuMemFreeAsync", pointer, 0)
    must("cuCtxSynchronize")
    assert (now("graph"), now("physical")) == (0, context + 32 * MIB), "kept when synchronised"
    must("cuDeviceGraphMemTrim", 0)
    assert (now("physical"), graph_memory()) == (context, [0, 32 * MIB] * 2)
    must("cuDeviceSetGraphMemAttribute", 0, 3, byref(c_uint64(0)))
    must("cuDeviceSetGraphMemAttribute", 0, 1, byref(c_uint64(0)))
    assert graph_memory() == [0] * 4
    assert code("cuDeviceSetGraphMemAttribute", 0, 0, byref(c_uint64(0))) == INVALID_VALUE
    # The graph and its executable may go while their memory is live; trimming leaves that.
    must("cuGraphLaunch", executable, 0)
    must("cuGraphExecDestroy", executable)
    must("cuGraphDestroy", graph)
    must("cuDeviceGraphMemTrim", 0)
    assert (now("graph"), now("physical")) == (3 * MIB, context + 32 * MIB)
    assert read_back(pointer, 1) == b"\7"
    must("cuMemFree_v2", pointer)
    assert code("cuMemFree_v2", pointer) == INVALID_VALUE
    must("cuDeviceGraphMemTrim", 0)
    assert (now("driver"), now("physical"), graph_memory()[2]) == (0, context, 0)


def memory_rules():
    """Which graphs with memory may be copied, freed from elsewhere, launched again."""
    start()
    context = now("physical")
    place = byref(c_uint64())
    graph = out("cuGraphCreate", 0)
    node, pointer = add_allocation(graph, 20 * MIB)
    assert code("cuGraphClone", place, graph) == NOT_SUPPORTED
    assert code("cuGraphDestroyNode", node) == NOT_SUPPORTED
    holder = out("cuGraphCreate", 0)
    assert code("cuGraphAddChildGraphNode", place, holder, None, 0, graph) == NOT_SUPPORTED
    executable = instantiate(graph, AUTO_FREE)
    flags = c_uint64()
    must("cuGraphExecGetFlags", executable, byref(flags))
    assert flags.value == AUTO_FREE
    assert code("cuGraphInstantiateWithFlags", place, graph, 0) == NOT_SUPPORTED, "one at a time"
    # Launched again, it frees first.
    for launches in (1, 2, 3):
        must("cuGraphLaunch", executable, 0)
        row = books()["kinds"]["graph"]
        assert (row["current"], row["peak"]) == (20 * MIB, 20 * MIB)
        assert (row["allocations"], row["frees"]) == (launches, launches - 1)
    assert graph_memory()[2] == 32 * MIB
    # Then a node of another graph can free it, but no node of the same graph.
    freeing = out("cuGraphCreate", 0)
    add_free(freeing, pointer)
    assert code("cuGraphAddMemFreeNode", place, freeing, None, 0, pointer) == INVALID_VALUE
    assert code("cuGraphAddMemFreeNode", place, graph, None, 0, pointer) == INVALID_VALUE
    mine = out("cuMemAllocAsync", 1000, 0)
    assert code("cuGraphAddMemFreeNode", place, freeing, None, 0, mine) == INVALID_VALUE
    must("cuMemFreeAsync", mine, 0)
    frees = instantiate(freeing)
    must("cuGraphLaunch", frees, 0)
    assert now("graph") == 0
    assert code("cuGraphLaunch", frees, 0) == INVALID_VALUE, "nothing to free"
    # Executables share pages: what one does not use, another does.
    another = out("cuGraphCreate", 0)
    _, second = add_allocation(another, 30 * MIB)
    also = instantiate(another)
    must("cuGraphLaunch", also, 0)
    assert graph_memory()[2] == 32 * MIB
    must("cuGraphLaunch", executable, 0)
    assert (graph_memory()[2], now("graph")) == (64 * MIB, 50 * MIB)
    # Nothing is live: a shortage takes the pages; something is: it takes only the rest.
    must("cuMemFree_v2", second)
    must("cuStreamSynchronize", 0)
    free, _ = memory_info()
    large = out("cuMemAlloc_v2", free + 32 * MIB)
    assert graph_memory()[2] == 32 * MIB
    # A launch that finds no pages changes nothing, not even what it would have freed.
    must("cuMemFree_v2", pointer)
    before = books(), graph_memory()
    assert code("cuGraphUpload", also, 0) == SUCCESS
    assert (books(), graph_memory()) == before, "the pages are there"
    must("cuGraphLaunch", executable, 0)
    before = books(), graph_memory()
    assert code("cuGraphLaunch", also, 0) == OUT_OF_MEMORY
    assert code("cuGraphUpload", also, 0) == OUT_OF_MEMORY
    assert (books(), graph_memory()) == before
    must("cuMemFree_v2", large)
    must("cuGraphLaunch", also, 0)
    # A child that is moved to its parent may have memory.
    parameters = Node(CHILD)
    inside = out("cuGraphCreate", 0)
    _, third = add_allocation(inside, MIB)
    add_free(inside, third)
    parameters.words[0], parameters.words[1] = inside, 1
    out("cuGraphAddNode_v2", holder, None, None, 0, byref(parameters))
    assert code("cuGraphDestroy", inside) == INVALID_VALUE
    allocates = Node(ALLOCATE)
    of_node = AllocNode(1, 0, Location(1, 0))
    of_node.bytes = 2 * MIB
    ctypes.memmove(byref(allocates, 16), byref(of_node), ctypes.sizeof(of_node))
    out("cuGraphAddNode_v2", holder, None, None, 0, byref(allocates))
    fourth = AllocNode.from_buffer_copy(bytes(allocates)[16:]).pointer
    row = books()["kinds"]["graph"]
    must("cuGraphLaunch", instantiate(holder), 0)
    assert books()["kinds"]["graph"]["allocations"] == row["allocations"] + 2
    for pointer in (pointer, second, fourth):
        must("cuMemFree_v2", pointer)
    assert now("driver") == 0
    # With the device's last context all of it goes.
    must("cuGraphLaunch", also, 0)
    must("cuDevicePrimaryCtxReset_v2", 0)
    assert (now("graph"), now("physical"), graph_memory()[2]) == (0, 0, 0)
    assert code("cuGraphAddMemAllocNode", place, graph, None, 0, byref(AllocNode(1))) != SUCCESS
    assert context > 0


def captured_memory():
    """Stream-ordered allocation in a capture makes memory nodes; what was there before cannot be
    freed in it."""
    start()
    stream = out("cuStreamCreate", 1)
    context = now("physical")
    outside = out("cuMemAllocAsync", 500, stream)
    begin(stream)
    kept = out("cuMemAllocAsync", 4 * MIB, stream)
    passing = out("cuMemAllocAsync", 1000, stream)
    must("cuMemsetD8Async", kept, 9, 4 * MIB, stream)
    must("cuMemcpyDtoDAsync_v2", passing, kept, 1000, stream)
    must("cuMemFreeAsync", passing, stream)
    assert code("cuMemFreeAsync", passing, stream) == INVALID_VALUE
    assert (now("graph"), now("async")) == (0, 500)
    graph = end(stream)
    assert kinds(graph) == [ALLOCATE, ALLOCATE, FILL, COPY, FREE]
    begin(stream)
    assert code("cuMemFreeAsync", outside, stream) == INVALID_VALUE
    must("cuGraphDestroy", end(stream))
    must("cuMemFreeAsync", outside, stream)
    executable = instantiate(graph)
    for _ in range(3):
        must("cuGraphLaunch", executable, stream)
        assert (now("graph"), now("async"), read_back(kept, 1)) == (4 * MIB, 0, b"\11")
        must("cuMemFreeAsync", kept, stream)
    row = books()["kinds"]["graph"]
    assert (row["allocations"], row["frees"], row["peak"]) == (6, 6, 4 * MIB + 1000)
    must("cuGraphExecDestroy", executable)
    must("cuGraphDestroy", graph)
    must("cuStreamSynchronize", stream)
    assert now("physical") == context + 32 * MIB
    must("cuDeviceGraphMemTrim", 0)
    assert now("physical") == context


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
