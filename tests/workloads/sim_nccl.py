"""libnccl.so.2 of the simulator through ctypes: the checks that the arguments name, or
`memory RANK WORLD STEP…`, which prints the driver's live bytes after each step of one rank's life."""

import ctypes
import json
import sys
from ctypes import Structure, byref, c_char, c_int, c_size_t, c_uint32, c_uint64, c_void_p

from sim_cuda import MIB, SUCCESS, books, must, out, start

NCCL = ctypes.CDLL("libnccl.so.2")
FLOAT, INT64, INVALID_ARGUMENT, INVALID_USAGE = 7, 4, 4, 5


class UniqueId(Structure):
    """ncclUniqueId, which is passed by value."""

    _fields_ = [("internal", c_char * 128)]


class Config(Structure):
    """The beginning of ncclConfig_t, as an older NCCL has it."""

    _fields_ = [
        ("size", c_size_t), ("magic", c_uint32), ("version", c_uint32), ("blocking", c_int), ("cga", c_int),
        ("least", c_int), ("most", c_int), ("net", c_void_p), ("split_share", c_int), ("traffic", c_int),
    ]


def config(**fields):
    undefined = -(1 << 31)
    made = Config(ctypes.sizeof(Config), 0xCAFEBEEF, 23007, *[undefined] * 4, None, undefined, undefined)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def code(name, *arguments):
    function = getattr(NCCL, name)
    function.restype = c_int
    return function(*arguments)


def do(name, *arguments):
    got = code(name, *arguments)
    assert got == SUCCESS, f"{name} gave {got}"


def communicator(rank, world, configured=None):
    comm, unique = c_void_p(), UniqueId()
    do("ncclGetUniqueId", byref(unique))
    do("ncclCommInitRankConfig", byref(comm), world, unique, rank, configured and byref(configured))
    return comm


def driver(device=0):
    return books(device)["driver"]["current"]


class Buffer:
    """Device memory of 64-bit numbers."""

    def __init__(self, numbers):
        self.count = len(numbers)
        self.address = out("cuMemAlloc_v2", max(self.count, 1) * 8)
        must("cuMemcpyHtoD_v2", self.address, (c_uint64 * self.count)(*numbers), self.count * 8)

    def read(self):
        numbers = (c_uint64 * self.count)()
        must("cuMemcpyDtoH_v2", numbers, self.address, self.count * 8)
        return list(numbers)

    def pointer(self, first=0):
        return c_void_p(self.address + first * 8)


def memory(rank, world, *steps):
    """Live bytes after each step, without the program's own buffer."""
    start()
    large = out("cuMemAlloc_v2", 4 * MIB)
    place, count = c_void_p(large), c_size_t
    own = driver()
    told, comm = {}, None
    for step in steps:
        name, _, size = step.partition(":")
        number = int(size or 0)
        if name == "init":
            comm = communicator(rank, world, config(most=number) if number else None)
        elif name == "all_reduce":
            do("ncclAllReduce", place, place, count(number), 0, 0, comm, None)
        elif name == "all_gather":
            do("ncclAllGather", place, place, count(number), 0, comm, None)
        elif name == "broadcast":
            do("ncclBroadcast", place, place, count(number), 0, 0, comm, None)
        elif name == "all_to_all":
            do("ncclAlltoAll", place, place, count(1), 0, comm, None)
        elif name in ("send", "recv"):
            do("ncclSend" if name == "send" else "ncclRecv", place, count(8), 0, number, comm, None)
        elif name == "split":
            do("ncclCommSplit", comm, 0, 0, byref(c_void_p()), byref(config(split_share=number)))
        elif name == "suspend":
            do("ncclCommSuspend", comm, 1)
        elif name == "resume":
            do("ncclCommResume", comm)
        elif name == "destroy":
            do("ncclCommDestroy", comm)
        else:
            raise ValueError(step)
        told[step] = driver() - own
    print(json.dumps(told))


def one_rank():
    """Every collective of one rank is a copy."""
    start()
    comm, data = communicator(0, 1), [3, 1, 4, 1, 5]
    size = c_size_t(len(data))
    calls = {
        "ncclAllReduce": (size, INT64, 0), "ncclReduce": (size, INT64, 0, 0), "ncclBroadcast": (size, INT64, 0),
        "ncclAllGather": (size, INT64), "ncclReduceScatter": (size, INT64, 0), "ncclAlltoAll": (size, INT64),
        "ncclGather": (size, INT64, 0), "ncclScatter": (size, INT64, 0),
    }
    for name, arguments in calls.items():
        source, target = Buffer(data), Buffer([0] * 5)
        do(name, source.pointer(), target.pointer(), *arguments, comm, None)
        assert (source.read(), target.read()) == (data, data), name
    do("ncclGroupStart")
    source, target = Buffer(data), Buffer([0] * 5)
    do("ncclRecv", target.pointer(), size, INT64, 0, comm, None)
    do("ncclSend", source.pointer(), size, INT64, 0, comm, None)
    do("ncclGroupEnd")
    assert target.read() == data
    assert code("ncclSend", source.pointer(), size, INT64, 0, comm, None) == INVALID_USAGE, "outside of a group"
    assert code("ncclGroupEnd") == INVALID_USAGE
    do("ncclCommDestroy", comm)


def many_ranks():
    """Others are taken to hold what this one holds; nothing is added up."""
    start()
    comm, data = communicator(1, 3), [7, 8]
    two = c_size_t(2)
    source, target = Buffer(data), Buffer([0] * 6)
    do("ncclAllGather", source.pointer(), target.pointer(), two, INT64, comm, None)
    assert target.read() == data * 3
    parts, target = Buffer([0, 1, 2, 3, 4, 5]), Buffer([9, 9])
    do("ncclReduceScatter", parts.pointer(), target.pointer(), two, INT64, 0, comm, None)
    assert target.read() == [2, 3]
    target = Buffer([0] * 6)
    do("ncclAlltoAll", parts.pointer(), target.pointer(), two, INT64, comm, None)
    assert target.read() == [2, 3] * 3
    target = Buffer([9, 9])
    do("ncclRecv", target.pointer(), two, INT64, 0, comm, None)
    do("ncclReduce", source.pointer(), target.pointer(), two, INT64, 0, 0, comm, None)
    assert target.read() == [9, 9], "what comes from others, and what the root alone gets"
    target = Buffer([0] * 6)
    do("ncclGroupStart")
    for root in range(3):
        own = source if root == 1 else target
        first = 0 if root == 1 else 2 * root
        do("ncclBroadcast", own.pointer(first), target.pointer(2 * root), two, INT64, root, comm, None)
    do("ncclGroupEnd")
    assert target.read() == data * 3, "an all-gather that is made of broadcasts"
    do("ncclCommDestroy", comm)


def large_messages():
    """Messages beyond the limit stay where they are, with more than one rank."""
    start()
    count = 200_000
    for world, expected in ((1, 1), (2, 0)):
        comm = communicator(0, world)
        source, target = Buffer([1] * count), Buffer([0] * count)
        do("ncclAllReduce", source.pointer(), target.pointer(), c_size_t(count), INT64, 0, comm, None)
        assert set(target.read()) == {expected}
        do("ncclCommDestroy", comm)


def questions():
    """A communicator's own properties."""
    start()
    version, number, error, value = c_int(), c_int(), c_int(7), c_uint64()
    do("ncclGetVersion", byref(version))
    assert version.value == 23007
    comm = communicator(7, 1024)
    do("ncclCommCount", comm, byref(number))
    assert number.value == 1024
    do("ncclCommUserRank", comm, byref(number))
    assert number.value == 7
    do("ncclCommCuDevice", comm, byref(number))
    do("ncclCommGetAsyncError", comm, byref(error))
    assert (number.value, error.value) == (0, 0)
    NCCL.ncclGetErrorString.restype = ctypes.c_char_p
    assert NCCL.ncclGetErrorString(0) == b"no error"
    for which in range(4):
        do("ncclCommMemStats", comm, which, byref(value))
    assert value.value > 0
    operation = c_int()
    do("ncclRedOpCreatePreMulSum", byref(operation), None, FLOAT, 1, comm)
    assert operation.value >= 5
    do("ncclRedOpDestroy", operation, comm)
    excluded, smaller = (c_int * 2)(0, 9), c_void_p()
    do("ncclCommShrink", comm, excluded, 2, byref(smaller), None, 0)
    do("ncclCommCount", smaller, byref(number))
    assert number.value == 1022
    do("ncclCommUserRank", smaller, byref(number))
    assert number.value == 6
    do("ncclCommSplit", comm, -1, 0, byref(smaller), None)
    assert not smaller.value, "no colour, no communicator"
    unknown = c_void_p(12345)
    assert code("ncclCommCount", unknown, byref(number)) == INVALID_ARGUMENT
    assert code("ncclCommInitRank", byref(smaller), 2, UniqueId(), 2) == INVALID_ARGUMENT
    assert code("ncclAllReduce", None, None, c_size_t(1), FLOAT, 0, comm, None) == INVALID_ARGUMENT
    assert code("ncclSend", None, c_size_t(0), FLOAT, 1024, comm, None) == INVALID_ARGUMENT
    assert [code("ncclDevCommCreate", comm, None, None) for _ in range(2)] == [INVALID_USAGE] * 2
    do("ncclCommFinalize", comm)
    do("ncclCommAbort", comm)
    assert code("ncclCommAbort", comm) == INVALID_ARGUMENT


def allocations():
    """ncclMemAlloc, registered buffers, windows."""
    start()
    before, pointer, handle = driver(), c_void_p(), c_void_p()
    do("ncclMemAlloc", byref(pointer), c_size_t(3 * MIB))
    assert driver() - before == 4 * MIB == books()["kinds"]["vmm"]["current"], "whole pages"
    must("cuMemsetD8_v2", pointer.value, c_uint32(7), 3 * MIB)
    comm = communicator(0, 2)
    held = driver()
    do("ncclCommRegister", comm, pointer, c_size_t(MIB), byref(handle))
    do("ncclCommDeregister", comm, handle)
    assert driver() == held and code("ncclCommDeregister", comm, handle) == INVALID_ARGUMENT
    windows = [c_void_p(), c_void_p()]
    for window in windows:
        do("ncclCommWindowRegister", comm, pointer, c_size_t(MIB), byref(window), 1)
    assert driver() - held == 2 * MIB, "one table of addresses for all windows"
    own, other = c_void_p(), c_void_p(1)
    do("ncclWinGetUserPtr", comm, windows[0], byref(own))
    assert own.value == pointer.value
    do("ncclGetPeerDevicePointer", windows[0], c_size_t(64), 0, byref(own))
    do("ncclGetPeerDevicePointer", windows[0], c_size_t(64), 1, byref(other))
    assert (own.value, other.value) == (pointer.value + 64, None)
    for window in windows:
        do("ncclCommWindowDeregister", comm, window)
    do("ncclCommDestroy", comm)
    do("ncclMemFree", pointer)
    kernels = 240 * MIB
    assert driver() - before == kernels


def all_of_a_process():
    """ncclCommInitAll: a communicator on each device, and the current device stays."""
    start()
    context = out("cuCtxGetCurrent")
    comms, number = (c_void_p * 2)(), c_int()
    do("ncclCommInitAll", comms, 2, (c_int * 2)(1, 0))
    assert out("cuCtxGetCurrent") == context
    for rank, device in enumerate((1, 0)):
        do("ncclCommCuDevice", c_void_p(comms[rank]), byref(number))
        assert number.value == device and driver(device) > 200 * MIB
        do("ncclCommDestroy", c_void_p(comms[rank]))


def no_room():
    """NCCL can run out of memory like any other user; a failed communicator leaves no memory behind."""
    start()
    before, comm = driver(), c_void_p()
    assert code("ncclCommInitRank", byref(comm), 8, UniqueId(), 0) == 1
    NCCL.ncclGetLastError.restype = ctypes.c_char_p
    assert b"no room for NCCL's memory" in NCCL.ncclGetLastError(None)
    assert driver() - before == 240 * MIB, "the code of its kernels stays"


def in_capture():
    """Memory that is first needed while a stream is captured does not spoil the capture."""
    start()
    comm = communicator(0, 2)
    held = driver()
    stream = out("cuStreamCreate", c_uint32(1))
    source, target = Buffer([5]), Buffer([0])
    grown = driver()
    must("cuStreamBeginCapture_v2", stream, c_uint32(0))
    do("ncclAllReduce", source.pointer(), target.pointer(), c_size_t(1), INT64, 0, comm, c_void_p(stream))
    graph = c_void_p()
    must("cuStreamEndCapture", stream, byref(graph))
    assert driver() > grown > held and target.read() == [0], "captured, and not yet done"
    executable = out("cuGraphInstantiateWithFlags", graph.value, 0)
    must("cuGraphLaunch", executable, stream)
    must("cuStreamSynchronize", stream)
    assert target.read() == [5]


if __name__ == "__main__":
    if sys.argv[1] == "memory":
        memory(int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
    else:
        for check in sys.argv[1:]:
            globals()[check]()
            print(check, "holds", flush=True)
