"""Checks of the simulated NVML on cards that several processes use, that are split by MIG, or that CUDA
counts in another order; `sim_nvml_cards.py NAME` runs one of them."""

import json
import os
import signal
import subprocess
import sys
from ctypes import Structure, byref, c_char_p, c_int, c_uint32, c_uint64, c_void_p, create_string_buffer

from sim_cards import Other
from sim_nvml import INSUFFICIENT_SIZE, INVALID_ARGUMENT, NOT_FOUND, NOT_SUPPORTED, Memory, Process
from sim_nvml import ProcessV1, code, must, running

NO_INSTANCE = 2**32 - 1
MIB, GIB = 1 << 20, 1 << 30
MEMORY_V2 = 40 | 2 << 24
COMPUTE = "nvmlDeviceGetComputeRunningProcesses"
GRAPHICS = "nvmlDeviceGetGraphicsRunningProcesses"
FORMS = (("", ProcessV1), ("_v2", Process), ("_v3", Process))


class MemoryV2(Structure):
    """nvmlMemory_v2_t."""

    _fields_ = [("version", c_uint32)] + [
        (name, c_uint64) for name in ("total", "reserved", "free", "used")
    ]


def card(index=0):
    """A card's handle."""
    device = c_void_p()
    must("nvmlDeviceGetHandleByIndex_v2", index, byref(device))
    return device


def number(name, device):
    """A function that gives one 32-bit number."""
    place = c_uint32()
    must(name, device, byref(place))
    return place.value


def uuid(device):
    """A device's UUID."""
    text = create_string_buffer(96)
    must("nvmlDeviceGetUUID", device, text, 96)
    return text.value.decode()


def used(device):
    """Bytes in use, which must be the same in both forms."""
    memory, second = Memory(), MemoryV2(version=MEMORY_V2)
    must("nvmlDeviceGetMemoryInfo", device, byref(memory))
    must("nvmlDeviceGetMemoryInfo_v2", device, byref(second))
    assert memory.total == second.total and memory.free == second.free
    assert memory.used == second.used + second.reserved
    assert memory.total == memory.used + memory.free
    return second.used


def listed(device):
    """Processes and their bytes, which must be the same in all three forms; no process uses graphics."""
    all_forms = []
    for suffix, kind in FORMS:
        got, count, processes = running(COMPUTE + suffix, kind, device)
        assert got == 0
        all_forms.append([(one.pid, one.used) for one in processes[:count]])
        if count:
            assert running(COMPUTE + suffix, kind, device, room=0)[:2] == (INSUFFICIENT_SIZE, count)
        assert running(GRAPHICS + suffix, kind, device)[:2] == (0, 0)
    assert all_forms[0] == all_forms[1] == all_forms[2]
    return dict(all_forms[0])


def seen_from_outside():
    """What a process sees that has loaded NVML and no driver: uuid, bytes and processes by card."""
    done = subprocess.run([sys.executable, __file__, "outside"], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def outside():
    """The process that has no driver."""
    must("nvmlInit_v2")
    count = c_uint32()
    must("nvmlDeviceGetCount_v2", byref(count))
    cards = [card(index) for index in range(count.value)]
    print(json.dumps([[uuid(one), used(one), listed(one)] for one in cards]))
    assert "libcuda" not in open("/proc/self/maps").read()


def processes():
    """Every process is listed with its bytes, and process 1 with those of others; as long as it
    lives."""
    import sim_cuda

    must("nvmlInit_v2")
    elsewhere = 64 * MIB
    device = card()
    assert (used(device), listed(device)) == (elsewhere, {1: elsewhere})
    first, second = Other(3 * MIB), Other(5 * MIB)
    of_others = {1: elsewhere, first.pid: first.physical, second.pid: second.physical}
    assert listed(device) == of_others
    sim_cuda.start()
    own = sim_cuda.now("physical")
    everybody = {**of_others, os.getpid(): own}
    assert listed(device) == everybody and used(device) == sum(everybody.values())
    free, total = sim_cuda.memory_info()
    assert total - free == used(device)
    (_, bytes_, by_pid), (_, *nothing) = seen_from_outside()
    assert bytes_ == used(device) and nothing == [0, {}]
    assert {int(pid): one for pid, one in by_pid.items()} == everybody
    first.end(signal.SIGKILL)
    del everybody[first.pid]
    assert listed(device) == everybody and used(device) == sum(everybody.values())
    second.end()
    assert listed(device) == {1: elsewhere, os.getpid(): own}


def hidden():
    """A container: bytes are reported, processes are not."""
    import sim_cuda

    must("nvmlInit_v2")
    sim_cuda.start()
    assert listed(card()) == {} and used(card()) == sim_cuda.now("physical") + 64 * MIB


def host():
    """A container whose processes have other ids on the host, by which NVML goes."""
    import sim_cuda

    must("nvmlInit_v2")
    sim_cuda.start()
    other = Other(MIB)
    own = os.getpid() + 1_000_000
    assert listed(card()) == {
        own: sim_cuda.now("physical"),
        other.pid + 1_000_000: other.physical,
        1: 64 * MIB,
    }
    name = create_string_buffer(4096)
    must("nvmlSystemGetProcessName", own, name, 4096)
    assert name.value.decode() == os.readlink("/proc/self/exe")
    other.end()


def order(*ordinals):
    """CUDA's device 0 and so on are NVML's cards of these indices, by UUID and by PCI address."""
    import sim_cuda

    must("nvmlInit_v2")
    sim_cuda.must("cuInit", 0)
    assert sim_cuda.out("cuDeviceGetCount", kind=c_int) == len(ordinals)
    for ordinal, index in enumerate(map(int, ordinals)):
        assert sim_cuda.books(ordinal)["uuid"] == uuid(card(index))
        address = create_string_buffer(64)
        sim_cuda.must("cuDeviceGetPCIBusId", address, 64, ordinal)
        same = c_void_p()
        must("nvmlDeviceGetHandleByPciBusId_v2", address, byref(same))
        assert same.value == card(index).value
        sim_cuda.start(ordinal)
        assert used(card(index)) == sim_cuda.now("physical", ordinal) > 0
    capabilities = [sim_cuda.out("cuDeviceGetAttribute", 75, o, kind=c_int) for o in range(len(ordinals))]
    assert capabilities == [8 if int(index) == 0 else 9 for index in ordinals]


def mig(which):
    """CUDA sees one instance of a split card; NVML sees the card and all its instances."""
    import sim_cuda

    must("nvmlInit_v2")
    whole, split = card(0), card(1)
    modes = [c_uint32(7), c_uint32(7)]
    for device, mode in ((whole, 0), (split, 1)):
        must("nvmlDeviceGetMigMode", device, byref(modes[0]), byref(modes[1]))
        assert [mode.value for mode in modes] == [mode, mode]
        assert number("nvmlDeviceGetMaxMigDeviceCount", device) == 7 * mode
        assert number("nvmlDeviceIsMigDeviceHandle", device) == 0
        assert code("nvmlDeviceGetGpuInstanceId", device, byref(c_uint32())) == INVALID_ARGUMENT
    place = c_void_p()
    assert code("nvmlDeviceGetMigDeviceHandleByIndex", whole, 0, byref(place)) == NOT_FOUND
    assert code("nvmlDeviceGetMigDeviceHandleByIndex", split, 2, byref(place)) == NOT_FOUND
    instances = []
    for index in range(2):
        must("nvmlDeviceGetMigDeviceHandleByIndex", split, index, byref(place))
        one = c_void_p(place.value)
        assert uuid(one).startswith("MIG-") and len(uuid(one)) == 40
        must("nvmlDeviceGetHandleByUUID", c_char_p(uuid(one).encode()), byref(place))
        assert place.value == one.value
        must("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", one, byref(place))
        assert place.value == split.value
        assert number("nvmlDeviceIsMigDeviceHandle", one) == 1
        assert number("nvmlDeviceGetIndex", one) == index
        assert number("nvmlDeviceGetGpuInstanceId", one) == index + 1
        assert number("nvmlDeviceGetComputeInstanceId", one) == 0
        instances.append(one)
    assert len({uuid(one) for one in (whole, split, *instances)}) == 4

    # This process in one of the instances, another one in the other.
    here, there = instances[int(which)], instances[1 - int(which)]
    other = Other(MIB, CUDA_VISIBLE_DEVICES=uuid(there))
    sim_cuda.start()
    assert sim_cuda.out("cuDeviceGetCount", kind=c_int) == 1
    assert sim_cuda.books()["uuid"] == uuid(here)
    bytes_of = lambda text: bytes.fromhex(text[4:].replace("-", ""))  # noqa: E731
    found = sim_cuda.Uuid()
    sim_cuda.must("cuDeviceGetUuid_v2", byref(found), 0)
    assert bytes(found.bytes) == bytes_of(uuid(here))
    sim_cuda.must("cuDeviceGetUuid", byref(found), 0)
    assert bytes(found.bytes) == bytes_of(uuid(split)), "the older form knows no instances"
    # Its memory is only its share.
    own = sim_cuda.now("physical")
    free, total = sim_cuda.memory_info()
    assert (total, free) == (2 * GIB, 2 * GIB - own)
    sim_cuda.out("cuMemAlloc_v2", free)
    assert sim_cuda.code("cuMemAlloc_v2", byref(c_uint64()), 1) == sim_cuda.OUT_OF_MEMORY
    own = total
    assert [used(one) for one in (here, there, split, whole)] == [
        own, other.physical, own + other.physical, 0,
    ]
    both = {os.getpid(): own, other.pid: other.physical}
    assert (listed(here), listed(there)) == ({os.getpid(): own}, {other.pid: other.physical})
    assert (listed(split), listed(whole)) == (both, {})
    for device, ids in ((here, {int(which) + 1}), (split, {1, 2})):
        _, count, found = running(COMPUTE + "_v3", Process, device)
        assert {one.gpu_instance for one in found[:count]} == ids
        assert {one.compute_instance for one in found[:count]} == {0}
    other.end()


def no_mig():
    """Cards that cannot be split."""
    must("nvmlInit_v2")
    place = c_uint32()
    assert code("nvmlDeviceGetMigMode", card(), byref(place), byref(place)) == NOT_SUPPORTED
    handle = c_void_p()
    assert code("nvmlDeviceGetMigDeviceHandleByIndex", card(), 0, byref(handle)) == NOT_SUPPORTED
    assert number("nvmlDeviceGetMaxMigDeviceCount", card()) == 0


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
