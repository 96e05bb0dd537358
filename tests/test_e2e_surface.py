"""Families of functions that few programs call: arrays of all formats, sparse arrays, registered memory, address
space, memory of other processes and APIs, multicast, old forms, green contexts. On the simulated driver where it has
them, compared with its books; otherwise on a fake driver.

Of each function one call fails and changes nothing, and one succeeds."""

import json
import sys

import harness
import pytest
from test_interposer import (  # noqa: F401  (fixtures are found by name)
    ALLOC, CANCEL, CONTEXT, CONTEXT_END, FREE, MAP, QUIET, UNKNOWN_POINTER, UNMAP, both, everything,
    read, replayed, story,
)

ALIAS, ALIAS_END = 15, 16
ADDRESS, ADDRESS_END = 19, 20
ARRAY, REGISTERED, RESET = 1024, 4096, 32

# What the runtime does by itself, or this client by the driver.
SEEN_BELOW = {"cuDevicePrimaryCtxRetain", "cuCtxFromGreenCtx"}


@pytest.fixture
def surface(build_c, read, tmp_path):  # noqa: F811
    """surface("arrays") runs that part of hook_surface.c on the fake driver, without and with the
    library, and reads the capture."""
    folder = tmp_path / "fake"
    folder.mkdir()
    built = build_c(
        "hook_surface_driver.c", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-Wl,-Bsymbolic"
    )
    (folder / "libcuda.so.1").symlink_to(built)
    client = build_c("hook_surface.c", "-ldl")

    def surface(part):
        for preload in ({}, harness.preloaded()):
            env = {"LD_LIBRARY_PATH": str(folder), **QUIET, **preload}
            done = harness.run([client, part], env=env, cwd=tmp_path, check=False)
            assert (done.returncode, done.stdout) == (0, "done\n"), harness.described(done)
        capture = read(tmp_path / "report.bin", whole=False)
        assert replayed(everything(capture)) == capture.counters
        assert not [e for e in capture.events if e["flags"] & UNKNOWN_POINTER]
        return capture

    return surface


def told(capture, *left_out):
    """Each event as (function, kind, bytes), without contexts that are known only from a block."""
    return [
        (api, kind, size)
        for (api, kind, _, size), event in zip(story(capture), capture.events)
        if not (kind == CONTEXT and event["ptr"] == 0xC0) and kind not in left_out
    ]


def exact(capture):
    return not [note for note in capture.notes if note.startswith("inexact")]


def test_arrays_of_all_formats(surface):
    capture = surface("arrays")
    frame, blocks = 1920 * 1080 * 3 // 2, 16 * (16 + 4 + 1 + 1 + 1)
    assert told(capture) == [
        ("cuArray3DCreate_v2", ALLOC, frame),
        ("cuMipmappedArrayCreate", ALLOC, blocks),
        ("cuArrayDestroy", FREE, frame),
        ("cuArrayDestroy", CANCEL, frame),
        ("cuArrayDestroy", FREE, frame),
        ("cuMipmappedArrayDestroy", FREE, blocks),
        ("cuMipmappedArrayDestroy", CANCEL, blocks),
        ("cuMipmappedArrayDestroy", FREE, blocks),
        ("cuArray3DCreate_v2", ALLOC, 0),
        ("cuArrayDestroy", FREE, 0),
    ]
    assert all(e["flags"] & ARRAY for e in capture.events if e["kind"] in (ALLOC, FREE))
    assert capture.counters["driver", 0][:2] == [0, frame + blocks]
    assert capture.notes.count(
        "inexact: 1 arrays of an unknown format were counted with 0 bytes"
    ) == 1


def test_sparse_arrays_are_counted_and_not_recorded(surface):
    """A sparse array has no bytes. Calls that map memory to it are counted, and the account states that they are not
    recorded; a dense array of the same extents has all its bytes."""
    capture = surface("sparse")
    dense = 1024 * 1024 * 16
    assert told(capture) == [
        ("cuArray3DCreate_v2", ALLOC, 0),
        ("cuArrayDestroy", FREE, 0),
        ("cuArrayDestroy", CANCEL, 0),
        ("cuArrayDestroy", FREE, 0),
        ("cuArray3DCreate_v2", ALLOC, dense),
        ("cuArrayDestroy", FREE, dense),
    ]
    assert capture.counters["driver", 0][:2] == [0, dense]
    assert {note for note in capture.notes if note.startswith("inexact")} == {
        "inexact: 1 sparse arrays were counted with 0 bytes: memory that is mapped to them is not recorded",
        "inexact: 2 calls of cuMemMapArrayAsync are not recorded",
    }
    assert capture.facts["calls.cuMemMapArrayAsync"] == "3", "the one that failed too"


def test_memory_of_others_is_counted_nowhere(surface):
    capture = surface("aliases")
    again = lambda api, size: [  # noqa: E731  (a failed closing is taken back)
        (api, ALIAS_END, size), (api, ALIAS, size), (api, ALIAS_END, size)
    ]
    assert told(capture) == [
        ("cuIpcOpenMemHandle_v2", ALIAS, 7000),
        *again("cuIpcCloseMemHandle", 7000),
        ("cuImportExternalMemory", ALIAS, 90000),
        ("cuExternalMemoryGetMappedBuffer", ALIAS, 5000),
        ("cuExternalMemoryGetMappedMipmappedArray", ALIAS, 64 * 64 * 4),
        *again("cuDestroyExternalMemory", 90000),
        *again("cuMemFree_v2", 5000),
        *again("cuMipmappedArrayDestroy", 64 * 64 * 4),
        ("cuMemPoolImportFromShareableHandle", ALIAS, 0),
        ("cuMemPoolImportPointer", ALIAS, 7000),
        *again("cuMemFreeAsync", 7000),
        ("cuMemPoolImportPointer", ALIAS, 7000),
        *again("cuMemFree_v2", 7000),
        *again("cuMemPoolDestroy", 0),
    ]
    assert capture.counters == {} and exact(capture)


def test_multicast_binds_what_is_counted_elsewhere(surface):
    capture = surface("multicast")
    assert told(capture) == [
        ("cuMemCreate", ALLOC, 1 << 21),
        ("cuMulticastCreate", ALIAS, 1 << 22),
        ("cuMulticastBindMem", ALIAS, 1 << 20),
        ("cuMulticastBindMem_v2", ALIAS, 1 << 19),
        ("cuMulticastBindAddr", ALIAS, 1 << 18),
        ("cuMulticastBindAddr_v2", ALIAS, 1 << 17),
        ("cuMulticastUnbind", ALIAS_END, 1 << 20),
        ("cuMemRelease", ALIAS_END, 0),
        ("cuMemRelease", ALIAS, 0),
        ("cuMemRelease", ALIAS_END, 0),
        ("cuMemRelease", FREE, 1 << 21),
    ]
    assert capture.counters["driver", 0] == [0, 1 << 21, 1, 1] and exact(capture)


def test_forms_of_before_cuda_3_2(surface):
    """What has 32 bits is counted and not recorded; what fails is not even counted."""
    capture = surface("old")
    assert told(capture) == [
        ("cuMemAllocHost", ALLOC, 300),
        ("cuMemFreeHost", FREE, 300), ("cuMemFreeHost", CANCEL, 300), ("cuMemFreeHost", FREE, 300),
    ]
    unrecorded = {"cuMemAlloc": 1, "cuMemAllocPitch": 1, "cuArrayCreate": 1, "cuArray3DCreate": 1, "cuMemFree": 2}
    assert {note for note in capture.notes if note.startswith("inexact")} == {
        f"inexact: {calls} calls of {name} are not recorded" for name, calls in unrecorded.items()
    }


def test_memory_of_graphics_is_counted_and_not_recorded(surface):
    capture = surface("graphics")
    assert told(capture) == [("cuMemAlloc_v2", ALLOC, 5000)]
    assert [note for note in capture.notes if note.startswith("inexact")] == [
        "inexact: 2 calls of cuGraphicsMapResources are not recorded"
    ]
    assert capture.facts["calls.cuGraphicsMapResources"] == "3", "the one that failed too"


def test_green_contexts_are_parts_of_the_primary_one(surface):
    """Memory outlives them, but not the primary context, which ends with its last hold."""
    capture = surface("green")
    assert told(capture) == [
        ("cuGreenCtxCreate", CONTEXT, 0),
        ("cuCtxFromGreenCtx", CONTEXT, 0),
        ("cuMemAlloc_v2", ALLOC, 5000),
        ("cuGreenCtxDestroy", CONTEXT_END, 0),
        ("cuGreenCtxCreate", CONTEXT, 0),
        ("cuGreenCtxDestroy", CONTEXT_END, 0),
        ("cuGreenCtxDestroy", FREE, 5000),
        ("cuGreenCtxDestroy", CONTEXT_END, 0),
    ]
    ends = [e["flags"] & RESET for e in capture.events if e["kind"] == CONTEXT_END]
    assert ends == [0, 0, RESET]
    assert exact(capture)


def test_families_on_the_simulator(build_c, simulate, read, tmp_path):  # noqa: F811
    """The client compares the recorder's counters with the simulator's books after each step, at all levels."""
    client = build_c("hook_families.c", "-ldl")
    env = {**QUIET, "GPUMEM_OUTPUT": str(tmp_path / "report-%p.bin")}
    without = simulate([client], env=QUIET)
    recorded = simulate([client], preload=True, env=env)
    assert recorded.stdout == without.stdout
    # The process that shares has arrays; the one that opens has an alias and its own block.
    captures = [read(path) for path in tmp_path.glob("report-*.bin")]
    assert len(captures) == 2
    (sharing,) = [c for c in captures if [e for e in c.events if e["flags"] & ARRAY]]
    (opening,) = [c for c in captures if c is not sharing]

    box, layers = 100 * 50 * 20 * 4, 64 * 64 * 6 * 4
    levels = box + 50 * 25 * 10 * 4 + 25 * 12 * 5 * 4 + 12 * 6 * 2 * 4
    assert told(sharing) == [
        ("cuDevicePrimaryCtxRetain", CONTEXT, 0),
        ("cuArrayCreate_v2", ALLOC, 16000),
        ("cuArrayDestroy", FREE, 16000),
        ("cuArrayCreate_v2", ALLOC, 16000),
        ("cuArray3DCreate_v2", ALLOC, box),
        ("cuArray3DCreate_v2", ALLOC, layers),
        ("cuMipmappedArrayCreate", ALLOC, levels),
        ("cuMipmappedArrayCreate", ALLOC, layers + layers // 4 + layers // 16),
        ("cuArrayDestroy", FREE, 16000),
        ("cuMipmappedArrayDestroy", FREE, levels),
        ("cuMemHostRegister_v2", ALLOC, 20000),
        ("cuMemHostAlloc", ALLOC, 5000),
        ("cuMemHostRegister", ALLOC, 10000),
        ("cuMemHostUnregister", FREE, 20000),
        ("cuMemFreeHost", FREE, 5000),
        ("cuMemAddressReserve", ADDRESS, 4 << 20),
        ("cuMemAddressFree", ADDRESS_END, 4 << 20),
        ("cuMemAddressFree", ADDRESS, 4 << 20),
        ("cuMemAddressFree", ADDRESS_END, 4 << 20),
        ("cuCtxCreate", CONTEXT, 0),
        ("cuMemAlloc_v2", ALLOC, 123456),
        ("cuArrayCreate_v2", ALLOC, 16000),
        *sorted([("cuCtxDetach", FREE, 123456), ("cuCtxDetach", FREE, 16000)], key=told(sharing).index),
        ("cuCtxDetach", CONTEXT_END, 0),
        ("cuMemAlloc_v2", ALLOC, 5 << 20),
        ("cuMemFree_v2", FREE, 5 << 20),
    ]
    registered = [e for e in sharing.events if e["flags"] & REGISTERED]
    assert [e["level"] for e in registered] == ["host"] * 3
    assert told(opening) == [
        ("cuDevicePrimaryCtxRetain", CONTEXT, 0),
        ("cuMemAlloc_v2", ALLOC, 3 << 20),
        ("cuIpcOpenMemHandle_v2", ALIAS, 5 << 20),
        ("cuIpcCloseMemHandle", ALIAS_END, 5 << 20),
    ]


def compared_with_the_books(folder, read, kinds=("driver", "physical")):  # noqa: F811
    """The captures of all processes, each compared with the simulator's books for it: bytes now and at the peak, and at
    the driver level allocations and frees."""
    captures = {}
    for path in folder.glob("books-*.json"):
        pid = path.stem.partition("-")[2]
        report = folder / f"report-{pid}.bin"
        capture = read(report) if report.exists() else None
        assert capture is None or not [e for e in capture.events if e["flags"] & UNKNOWN_POINTER]
        captures[pid] = capture
        for device, books in enumerate(json.loads(path.read_text())["devices"]):
            for kind in kinds:
                names = ("current", "peak", "allocations", "frees")[: 4 if kind == "driver" else 2]
                ours = capture.counters.get((kind, device), [0] * 4) if capture else [0] * 4
                assert ours[: len(names)] == [books[kind][name] for name in names], (pid, device, kind)
            ours = capture.counters.get(("host", device), [0, 0]) if capture else [0, 0]
            assert ours[:2] == [books["pinned"]["current"], books["pinned"]["peak"]], (pid, device)
    assert captures
    return [capture for capture in captures.values() if capture]


def books_and_reports(folder):
    """Environment of a run whose books are compared. Contexts cost nothing: that is other tests' matter."""
    return {
        **QUIET, "GPUMEM_SIM_CONTEXT_BYTES": "0", "GPUMEM_SIM_STREAM_BYTES": "0", "GPUMEM_OUTPUT": str(folder / "report-%p.bin"),
        "GPUMEM_SIM_BOOKS": str(folder / "books-%p.json"),
    }


# The simulator's own checks, by the file that has them; and the number of their processes.
CHECKS = {
    "sim_alias.py": {"reservations": 1, "handles": 2, "pools": 2, "ipc": 2, "external": 1, "ordinals": 2, "multicast": 1, "multicast_shared": 2},
    "sim_parts.py": {"planes": 1, "batches": 1, "green": 1, "old": 1},
}


@pytest.mark.parametrize("file, check", [(f, check) for f, checks in CHECKS.items() for check in checks])
def test_memory_that_is_reached_a_second_way(simulate, read, tmp_path, file, check):  # noqa: F811
    """Recorded and compared with the books: nothing is counted twice or left out."""
    devices = 2 if check.startswith(("ordinals", "multicast")) else 1
    simulate(
        [sys.executable, harness.WORKLOADS / file, check], devices=devices, memory="4GiB",
        preload=True, env=books_and_reports(tmp_path),
    )
    # Pages of managed memory are in the books, but only the driver knows where they lie.
    managed = check in ("ipc", "batches")
    compared_with_the_books(tmp_path, read, ["driver"] if managed else ["driver", "physical"])
    assert len(list(tmp_path.glob("books-*.json"))) == CHECKS[file][check]


@pytest.mark.parametrize("check", ["pools", "external", "arrays", "green"])
def test_the_same_through_the_runtime(simulate, build_c, read, tmp_path, check):  # noqa: F811
    """Each call of the program is recorded, once."""
    client = build_c("sim_alias.c", harness.BUILT / "libsimcudart.so", "-ldl")
    env = books_and_reports(tmp_path)
    costly = check == "green"  # it looks at what its contexts cost
    if costly:
        del env["GPUMEM_SIM_CONTEXT_BYTES"]
    simulate([client, check], devices=2, memory="4GiB", preload=True, env=env)
    functions = set()
    for capture in compared_with_the_books(tmp_path, read, ["driver"] if costly else ["driver", "physical"]):
        functions |= {capture.apis[event["api"]] for event in capture.events}
    assert functions, "nothing was recorded"
    own = {name for name in functions if not name.startswith("cuda")}
    assert own <= SEEN_BELOW, own
