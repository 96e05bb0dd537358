"""libgpumem.so by itself: the ways in which programs reach CUDA, the records of each call, and that programs are not
affected. C and C++ clients, on the simulated driver and on a fake one that follows the test's commands.

Every capture is replayed here from its records, independently of the analyzer: each live address is unique, and the
replay must give the shared counters."""

import json
import os
import re
import signal
import subprocess
from collections import namedtuple
from pathlib import Path

import harness
import pytest

ALLOC, FREE, CANCEL, MAP, UNMAP, OUT_OF_MEMORY, CONTEXT, CONTEXT_END = range(1, 9)
RESIZE, ADDRESS, ADDRESS_END = 17, 19, 20
UNKNOWN_POINTER, MISMATCH, STREAM_ORDERED, MANAGED, VMM_HANDLE, RESET = 1, 2, 4, 8, 16, 32
# Of what kind a reservation at the physical level is: pool, graphs, context, module.
RESERVATIONS = 4 | 128 | 256 | 512
MIB = 1 << 20
QUIET = {"GPUMEM_QUIET": "1"}
# Room for all that these programs do, however little the recorder's thread that empties the ring gets to run.
LARGE_RING = {"GPUMEM_RING_SLOTS": "524288"}

Capture = namedtuple("Capture", "events physical apis hooks facts notes devices counters end")


def replayed(events):
    """(level, device) → [live, peak, allocations, frees], by sequence; no address is live twice."""
    live, figures = {}, {}

    def figure(event):
        return figures.setdefault((event["level"], event["device"]), [0, 0, 0, 0])

    assert [e["seq"] for e in events] == sorted(e["seq"] for e in events)
    frees = {}
    for event in events:
        key = (event["level"], event["flags"] & VMM_HANDLE, event["ptr"])
        if event["kind"] == ALLOC:
            assert key not in live, f"an address is live twice: {event}"
            live[key] = event["bytes"]
            row = figure(event)
            row[0] += event["bytes"]
            row[2] += 1
            row[1] = max(row[:2])
        elif event["kind"] == FREE and not event["flags"] & UNKNOWN_POINTER:
            assert live.pop(key) == event["bytes"], event
            frees[event["seq"]] = event
            row = figure(event)
            row[0] -= event["bytes"]
            row[3] += 1
        elif event["kind"] == CANCEL:
            assert frees.pop(event["aux"])["ptr"] == event["ptr"]
            live[key] = event["bytes"]
            row = figure(event)
            row[0] += event["bytes"]
            row[3] -= 1
        elif event["kind"] == RESIZE:
            key = (event["level"], event["flags"] & RESERVATIONS, event["ptr"])
            assert event["flags"] & RESERVATIONS and live.get(key, 0) == event["aux"] != event["bytes"], event
            live[key] = event["bytes"]
            row = figure(event)
            row[0] += event["bytes"] - event["aux"]
            row[1] = max(row[:2])
            row[2] += event["aux"] == 0
            row[3] += event["bytes"] == 0
    return figures


@pytest.fixture
def read(dump):
    def read(path, whole=True) -> Capture:
        lines = harness.run([dump, path]).stdout.splitlines()
        capture = Capture([], [], {}, [], {}, [], {}, {}, {})
        for record in map(json.loads, lines):
            if record.get("level") == "physical" and "kind" in record:
                capture.physical.append(record)
            elif "kind" in record:
                capture.events.append(record)
            elif "api" in record:
                capture.apis[record["id"]] = record["api"]
            elif "hook" in record:
                capture.hooks.append((record["hook"], record["way"], record["library"]))
            elif "process" in record:
                capture.facts[record["process"]] = record["value"]
            elif "note" in record:
                capture.notes.append(record["note"])
            elif "ordinal" in record:
                capture.devices[record["ordinal"]] = record
            elif "counters" in record:
                capture.counters[record["counters"], record["device"]] = [
                    record[key] for key in ("live", "peak", "allocations", "frees")
                ]
            else:
                capture.end.update(record)
        if whole:
            assert capture.end["whole"] and capture.end["lost"] == 0, capture.end
            assert replayed(everything(capture)) == capture.counters
            assert not [note for note in capture.notes if note.startswith("inexact")]
        return capture

    return read


def everything(capture):
    """The events of all levels, in order."""
    return sorted(capture.events + capture.physical, key=lambda event: event["seq"])


def story(capture):
    """Each event as (function, kind, level, bytes)."""
    return [(capture.apis[e["api"]], e["kind"], e["level"], e["bytes"]) for e in capture.events]


@pytest.fixture(scope="session")
def simulator():
    """The folder with the simulated libcuda.so.1."""
    harness.run([harness.WITH_SIMULATOR, "true"])
    return harness.SIMULATOR


@pytest.fixture
def both(simulate):
    """Runs a command without and with the library; they must not differ, except in the capture."""

    def both(command, code=0, **options):
        options["env"] = {**QUIET, **options.get("env", {})}
        without = simulate(command, check=False, **options)
        assert without.returncode == code, harness.described(without)
        recorded = simulate(command, check=False, preload=True, **options)
        assert (recorded.returncode, recorded.stdout, recorded.stderr) == (
            without.returncode, without.stdout, without.stderr,
        ), harness.described(recorded)
        return recorded

    return both


# What the library exports


def test_the_exports_are_the_manifest():
    manifest = (harness.ROOT / "interposer/src/lib.rs").read_text()
    named = set()
    for listed in re.findall(r"^pub use [\w:]+::\{?([^;}]*)\}?;", manifest, flags=re.M):
        named.update(name.strip() for name in listed.split(",") if name.strip())
    functions = {name for name in named if not name.startswith("Gpumem")}
    symbols = harness.run(["nm", "-D", "--defined-only", harness.LIBRARY]).stdout
    assert functions == {line.split()[-1] for line in symbols.splitlines()}
    assert {"dlsym", "cuMemAlloc_v2", "cudaMalloc", "gpumem_counters"} <= functions


def test_the_header_names_the_c_api():
    header = (harness.ROOT / "interposer/include/gpumem.h").read_text()
    declared = set(re.findall(r"\b(gpumem_\w+)\(", header))
    symbols = harness.run(["nm", "-D", "--defined-only", harness.LIBRARY]).stdout
    assert declared == set(re.findall(r"\bgpumem_\w+", symbols))


def test_the_library_stays_loaded():
    assert "NODELETE" in harness.run(["readelf", "-d", harness.LIBRARY]).stdout


# Programs without CUDA


@pytest.mark.parametrize(
    "command",
    [
        ["true"],
        ["ls", "/"],
        ["bash", "-c", "echo hello; exit 3"],
        ["python3", "-c", "pass"],
        ["python3", "-c", "import ctypes; print(hasattr(ctypes.CDLL(None), 'cudaMalloc'))"],
        ["git", "status", "--short"],
        ["sh", "-c", "i=0; while [ $i -lt 200 ]; do (exit 0) & i=$((i+1)); done; wait; echo all"],
    ],
    ids=["true", "ls", "bash", "python", "ctypes", "git", "200 children"],
)
def test_nothing_happens_without_cuda(command, tmp_path):
    if command[0] == "git":
        harness.run(["git", "init", "--quiet"], cwd=tmp_path)
    before = sorted(os.listdir(tmp_path))
    without = harness.run(command, cwd=tmp_path, check=False)
    recorded = harness.run(command, cwd=tmp_path, env=harness.preloaded(), check=False)
    assert (recorded.returncode, recorded.stdout, recorded.stderr) == (
        without.returncode, without.stdout, without.stderr,
    )
    assert sorted(os.listdir(tmp_path)) == before


def test_cuda_does_not_seem_to_be_there(build_c, tmp_path):
    """When a process without CUDA looks for it with dlsym and dlvsym in every place, it gets NULL and the error;
    lookups of other functions are unchanged."""
    client = build_c("hook_absent.c", "-ldl")
    without = harness.run([client], cwd=tmp_path)
    recorded = harness.run([client], cwd=tmp_path, env=harness.preloaded())
    assert without.stdout.splitlines() == ["memcpy: two versions", "named", "told once"]
    assert (recorded.stdout, recorded.stderr) == (without.stdout, without.stderr)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("first", (True, False), ids=("before", "after"))
def test_rtld_next_means_what_the_caller_means(first, build_c, tmp_path):
    """A library that wraps a function of the same name gets the next one, without endless recursion."""
    wrapper = build_c("hook_next.c", "-shared", "-fPIC", "-ldl")
    order = [str(wrapper), str(harness.LIBRARY)]
    preload = ":".join(order if first else reversed(order))
    done = harness.run([build_c("hook_next_main.c", "-ldl")], env={"LD_PRELOAD": preload}, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("3 sane, 3 calls\n", "")


# Ways to the driver

WAYS = {
    "handle": (["handle"], "dlsym"),
    "versioned": (["versioned"], "dlsym"),
    "global, RTLD_DEFAULT": (["default"], "dlsym"),
    "global, RTLD_NEXT": (["next"], "dlsym"),
    "cuGetProcAddress 11.3": (["first", "11030"], "cuGetProcAddress"),
    "cuGetProcAddress 11.8, legacy": (["first", "11080", "1"], "cuGetProcAddress"),
    "cuGetProcAddress_v2 12.0": (["second", "12000"], "cuGetProcAddress"),
    "cuGetProcAddress_v2 13.2, per thread": (["second", "13020", "2"], "cuGetProcAddress"),
    "cuGetProcAddress_v2 of CUDA 3.2": (["second", "3020"], "cuGetProcAddress"),
    "without a status": (["no status", "13000"], "cuGetProcAddress"),
    "asked for itself": (["nested", "13000"], "cuGetProcAddress"),
    "asked for itself, 11.3": (["nested old", "11030"], "cuGetProcAddress"),
    "the second from the first": (["nested across", "12000"], "cuGetProcAddress"),
}


def assert_used_once(capture):
    assert story(capture) == [
        ("cuDevicePrimaryCtxRetain", CONTEXT, "driver", 0),
        ("cuMemAlloc_v2", ALLOC, "driver", 3 * MIB),
        ("cuMemFree_v2", FREE, "driver", 3 * MIB),
    ]
    # Three mebibytes are one page and half of another; the context, which stays, has NVML's figure.
    physical = [512 * MIB, 516 * MIB, 3, 2]
    assert capture.counters == {("driver", 0): [0, 3 * MIB, 1, 1], ("physical", 0): physical}


@pytest.mark.parametrize("name", WAYS)
def test_ways_to_the_driver(name, build_c, both, read, tmp_path):
    arguments, way = WAYS[name]
    client = build_c("hook_lookup.c", "-ldl")
    both([client, *arguments])
    capture = read(tmp_path / "report.bin")
    assert_used_once(capture)
    assert ("cuMemAlloc_v2", way, client.name) in capture.hooks
    assert ("cuMemFree_v2", way, client.name) in capture.hooks


def test_a_program_linked_with_the_driver(build_c, both, read, tmp_path, simulator):
    client = build_c("hook_lookup.c", "-DLINKED", simulator / "libcuda.so.1", "-ldl")
    both([client, "linked"])
    capture = read(tmp_path / "report.bin")
    assert_used_once(capture)
    assert ("cuMemAlloc_v2", "symbol", client.name) in capture.hooks


@pytest.mark.parametrize("way", ("direct", "default", "next"))
def test_a_library_out_of_the_global_scope(way, build_c, both, read, tmp_path, simulator):
    """A library loaded with RTLD_LOCAL finds the driver that it depends on; the program, which
    could not see it before, still cannot."""
    library = build_c("hook_local.c", "-shared", "-fPIC", simulator / "libcuda.so.1", "-ldl")
    done = both([build_c("hook_loader.c", "-ldl"), library, way])
    assert "before: default none, next none" in done.stdout
    assert "after: default none, next none" in done.stdout
    assert_used_once(read(tmp_path / "report.bin"))


@pytest.mark.parametrize("first", (True, False), ids=("before us", "after us"))
@pytest.mark.parametrize("way", ("linked", "default"))
def test_beside_another_interposer(way, first, build_c, simulate, read, tmp_path, simulator):
    """Each is called once, in the order of LD_PRELOAD, without endless recursion."""
    wrapper = build_c("hook_wrapper.c", "-shared", "-fPIC", "-ldl")
    client = build_c("hook_lookup.c", "-DLINKED", simulator / "libcuda.so.1", "-ldl")
    order = [str(wrapper), str(harness.LIBRARY)]
    preload = ":".join(order if first else reversed(order))
    done = simulate([client, way], env={**QUIET, "LD_PRELOAD": preload})
    assert "the wrapper had 1 calls" in done.stdout and done.stderr == ""
    assert_used_once(read(tmp_path / "report.bin"))


# What is recorded


def test_every_kind_of_memory(build_c, both, read, tmp_path):
    """The client itself compares our counters with the simulator's books after each step."""
    both([build_c("hook_kinds.c", "-ldl")])
    capture = read(tmp_path / "report.bin")
    unit = 2 * MIB
    driver, host = "driver", "host"
    told = story(capture)
    assert told[:35] == [
        ("cuDevicePrimaryCtxRetain", CONTEXT, driver, 0),
        ("cuMemAlloc_v2", ALLOC, driver, 1000),
        ("cuMemAllocPitch_v2", ALLOC, driver, 1024 * 7),
        ("cuMemAllocManaged", ALLOC, driver, 5000),
        ("cuMemAllocHost_v2", ALLOC, host, 777),
        ("cuMemHostAlloc", ALLOC, host, 888),
        ("cuMemFree_v2", FREE, driver, 1000),
        ("cuMemFree_v2", FREE, driver, 1024 * 7),
        ("cuMemFreeHost", FREE, host, 777),
        ("cuMemAlloc_v2", OUT_OF_MEMORY, driver, 1 << 50),
        # releases of rubbish, and of what is released already, fail: no event
        ("cuMemAllocAsync", ALLOC, driver, 3000),
        ("cuMemAllocAsync_ptsz", ALLOC, driver, 3001),
        ("cuMemAllocFromPoolAsync", ALLOC, driver, 3002),
        ("cuMemFreeAsync", FREE, driver, 3000),
        ("cuMemFreeAsync_ptsz", FREE, driver, 3001),
        ("cuMemFree_v2", FREE, driver, 3002),
        ("cuMemAddressReserve", ADDRESS, driver, 4 * unit),
        ("cuMemCreate", ALLOC, driver, unit),
        ("cuMemMap", MAP, driver, unit),
        ("cuMemMap", MAP, driver, unit),
        ("cuMemUnmap", UNMAP, driver, unit),
        ("cuMemUnmap", UNMAP, driver, unit),
        ("cuMemRelease", FREE, driver, unit),
        ("cuMemCreate", ALLOC, driver, 2 * unit),
        ("cuMemMap", MAP, driver, 2 * unit),
        ("cuMemUnmap", UNMAP, driver, 2 * unit),
        ("cuMemUnmap", FREE, driver, 2 * unit),
        ("cuMemAddressFree", ADDRESS_END, driver, 4 * unit),
        ("cuCtxCreate_v2", CONTEXT, driver, 0),
        ("cuMemAlloc_v2", ALLOC, driver, 123456),
        ("cuMemAllocHost_v2", ALLOC, host, 4321),
        *sorted([("cuCtxDestroy_v2", FREE, host, 4321), ("cuCtxDestroy_v2", FREE, driver, 123456)],
                key=told.index),
        ("cuCtxDestroy_v2", CONTEXT_END, driver, 0),
        ("cuMemAlloc_v2", ALLOC, driver, 65536),
    ]
    flags = {(e["bytes"], e["kind"]): e["flags"] for e in capture.events}
    assert flags[5000, ALLOC] == MANAGED
    assert flags[3000, ALLOC] == STREAM_ORDERED
    assert flags[unit, ALLOC] == VMM_HANDLE
    assert flags[123456, FREE] == RESET
    assert not [e for e in capture.events if e["flags"] & UNKNOWN_POINTER]
    # Addresses are no device's.
    assert {e["device"] for e in capture.events if e["kind"] not in (ADDRESS, ADDRESS_END)} == {0}
    assert capture.devices[0]["total_bytes"] == 16 << 30
    assert len({e["thread"] for e in capture.events}) == 1
    assert [e["time"] for e in capture.events] == sorted(e["time"] for e in capture.events)


def test_the_runtime_by_name(build_c, both, read, tmp_path, cudart102):
    """On NVIDIA's real runtime: one call is one event, under the name that the program called."""
    client = build_c("hook_runtime.c", cudart102 / "libcudart.so.10.2", f"-Wl,-rpath,{cudart102}", "-ldl")
    both([client], env={"GPUMEM_SIM_PROFILE": "cuda10"})
    capture = read(tmp_path / "report.bin")
    told = story(capture)
    # Seen when it is made, or with the first allocation if a private table of the driver made it.
    assert told[0] in [(api, CONTEXT, "driver", 0) for api in ("cudaFree", "cudaMalloc")]
    told = told[1:]
    pitched = told[1][3]
    assert told[:10] == [
        ("cudaMalloc", ALLOC, "driver", 1111),
        ("cudaMallocPitch", ALLOC, "driver", pitched),
        ("cudaMalloc3D", ALLOC, "driver", 5 * pitched),
        ("cudaMallocManaged", ALLOC, "driver", 4444),
        ("cudaMallocHost", ALLOC, "host", 5555),
        ("cudaHostAlloc", ALLOC, "host", 6666),
        ("cudaMalloc", OUT_OF_MEMORY, "driver", 1 << 46),
        # the release of rubbish fails: no event
        ("cudaFree", FREE, "driver", 1111),
        ("cudaFree", FREE, "driver", 5 * pitched),
        ("cudaFree", FREE, "driver", 4444),
    ]
    assert pitched >= 10_000
    assert told[10] == ("cudaFreeHost", FREE, "host", 5555)
    assert {api for api, *_ in told[11:]} == {"cudaDeviceReset"}
    assert sum(size for _, kind, _, size in told[11:] if kind == FREE) == pitched + 6666


def test_every_call_passes_through_once_and_unchanged(build_c, read, tmp_path):
    """A fake driver checks arguments, counts calls, and answers with codes that no driver has;
    releases that fail are taken back."""
    folder = tmp_path / "fake"
    folder.mkdir()
    build = build_c(
        "hook_fake_driver.c", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-Wl,-Bsymbolic"
    )
    (folder / "libcuda.so.1").symlink_to(build)
    client = build_c("hook_fake.c", "-ldl")
    for preload in ({}, harness.preloaded()):
        done = harness.run(
            [client], env={"LD_LIBRARY_PATH": str(folder), **QUIET, **preload}, cwd=tmp_path, check=False
        )
        assert (done.returncode, done.stdout) == (0, "all as the driver left it\n"), harness.described(done)
    path = tmp_path / "report.bin"
    capture = read(path, whole=False)
    assert replayed(everything(capture)) == capture.counters
    assert capture.counters["driver", 0] == [0, 12388, 6, 6]
    kinds = [kind for _, kind, *_ in story(capture)]
    assert kinds.count(CANCEL) == 11
    assert kinds.count(OUT_OF_MEMORY) == 1
    told = story(capture)
    # No recorded call created the context; the first allocation shows that there is one.
    assert told[0] == ("cuMemAlloc_v2", CONTEXT, "driver", 0)
    assert kinds.count(CONTEXT) == 1 and capture.events[0]["ptr"] == 0xC0
    assert [api for api, kind, *_ in told if kind == ALLOC][-4:] == [
        "cuMemAllocAsync", "cuMemAllocAsync", "cuMemAllocAsync_ptsz", "cuMemAlloc_v2",
    ]
    assert told[-2][3] == 400, "the function that is no export was recognised by name and version"
    inexact = [note for note in capture.notes if note.startswith("inexact")]
    assert inexact == ["inexact: 1 requests for a hooked function returned a version that is not hooked"]


def test_pytorchs_reports(build_c, both, read, tmp_path):
    """Every form of the reporter, from a library that is out of the global scope: passed on once
    with its own arguments, also when it throws; CUDA devices alone are recorded."""
    folder = tmp_path / "c10"
    folder.mkdir()
    c10 = build_c("hook_c10.cpp", "-shared", "-fPIC", "-Wl,-soname,libc10.so")
    (folder / "libc10.so").symlink_to(c10)
    allocator = build_c(
        "hook_tensors.cpp", "-shared", "-fPIC", folder / "libc10.so", f"-Wl,-rpath,{folder}"
    )
    done = both([build_c("hook_loader.c", "-ldl"), allocator, "x"])
    assert "13 calls, 3 exceptions" in done.stdout
    capture = read(tmp_path / "report.bin")
    assert set(api for api, *_ in story(capture)) == {"pytorch"}
    told = [(e["kind"], e["level"], e["device"], e["bytes"], e["aux"], e["flags"]) for e in capture.events]
    assert told == [
        (ALLOC, "tensor", 0, 512, 2 * MIB, 0),
        (ALLOC, "tensor", 1, 1024, 4 * MIB, 0),
        (ALLOC, "tensor", 1, 2048, 0, 0),
        (ALLOC, "tensor", 0, 512, 2 * MIB, MISMATCH),
        (OUT_OF_MEMORY, "tensor", 0, 1 << 30, 2 * MIB, 0),
        (FREE, "tensor", 0, 512, 2 * MIB, 0),
        (ALLOC, "tensor", 0, 1536, 2 * MIB, 0),
        (ALLOC, "tensor", 0, 1536, 2 * MIB, MISMATCH),
        (ALLOC, "tensor", 0, 1536, 2 * MIB, MISMATCH),
        (ALLOC, "tensor", 0, 512, 2 * MIB, MISMATCH),
    ]
    assert capture.events[4]["ptr"] == 1024, "what PyTorch said was live"


# Processes


def test_a_child_of_a_process_without_cuda(build_c, both, read, tmp_path):
    done = both([build_c("hook_fork.c", "-ldl", "-pthread"), "before"])
    assert "child: 1000 live" in done.stdout and "parent: 2000 live" in done.stdout
    live = [read(tmp_path / name).counters["driver", 0][0] for name in ("report.bin", "report-2.bin")]
    assert live == [1000, 2000]


def test_a_child_of_a_recording_process(build_c, both, read, tmp_path):
    """Whatever it calls, the parent's capture does not have it, and the child has no separate capture."""
    both([build_c("hook_fork.c", "-ldl", "-pthread"), "after"])
    assert [p.name for p in tmp_path.glob("report*")] == ["report.bin"]
    capture = read(tmp_path / "report.bin")
    assert capture.counters["driver", 0] == [9000, 9000, 2, 0]
    assert len({e["thread"] for e in capture.events}) == 1


def test_forks_while_threads_allocate(build_c, both, read, tmp_path):
    both([build_c("hook_fork.c", "-ldl", "-pthread"), "busy"], env=LARGE_RING)
    assert [p.name for p in tmp_path.glob("report*")] == ["report.bin"]
    assert read(tmp_path / "report.bin").counters["driver", 0][:2] >= [7000, 7000]


def test_cuda_in_a_plugins_destructor(build_c, both, read, tmp_path):
    """It runs after our own end: still passed on, and still recorded."""
    plugin = build_c("hook_plugin.c", "-shared", "-fPIC", "-ldl")
    done = both([build_c("hook_loader.c", "-ldl"), plugin, "x"])
    assert "in the destructor: 6291456 live" in done.stdout
    capture = read(tmp_path / "report.bin")
    assert capture.counters["driver", 0] == [6 * MIB, 6 * MIB, 3, 1]


def test_threads(build_c, both, read, tmp_path):
    """Eight threads at once: no event is lost, and the order is exact (checked by the replay)."""
    both([build_c("hook_threads.c", "-ldl", "-pthread"), "join"], env=LARGE_RING)
    capture = read(tmp_path / "report.bin")
    blocks = 8 * 4000
    assert capture.counters["driver", 0][2:] == [blocks, blocks - 8 * 10]
    assert len({e["thread"] for e in capture.events if e["kind"] == ALLOC}) == 8


@pytest.mark.parametrize("how", ("exit", "_exit"))
def test_exit_while_threads_allocate(how, build_c, both, read, tmp_path):
    both([build_c("hook_threads.c", "-ldl", "-pthread"), how], code=9, env=LARGE_RING)
    capture = read(tmp_path / "report.bin", whole=False)
    assert capture.end["lost"] == 0
    assert capture.end["clean_exit"] == (how == "exit")
    threads = 8
    assert sum(e["kind"] == ALLOC for e in capture.events) >= threads * 100
    live = {}
    for event in capture.events:  # the last event of each thread may be missing, no other
        key = event["ptr"]
        if event["kind"] == ALLOC:
            assert key not in live, event
            live[key] = event["bytes"]
        elif event["kind"] == FREE:
            assert live.pop(key) == event["bytes"]


def test_killed(build_c, read, tmp_path):
    client = build_c("hook_threads.c", "-ldl", "-pthread")
    process = subprocess.Popen(
        harness.simulator_command([client, "kill"]), cwd=tmp_path, stdout=subprocess.PIPE,
        env=harness.clean_environment(harness.preloaded(LARGE_RING)),
    )
    assert process.stdout.readline() == b"under way\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    capture = read(tmp_path / "report.bin", whole=False)
    assert capture.end["lost"] == 0 and not capture.end["clean_exit"]
    per_thread = {}
    for event in capture.events:
        if event["kind"] == ALLOC:
            per_thread[event["thread"]] = per_thread.get(event["thread"], 0) + 1
    assert len(per_thread) == 8 and min(per_thread.values()) >= 101


# The path of the capture, and the messages


@pytest.fixture
def client(build_c):
    return [build_c("hook_lookup.c", "-ldl"), "handle"]


def test_the_line_at_exit(client, simulate, tmp_path):
    done = simulate(client, preload=True)
    assert done.stderr == "gpumem: wrote report.bin. Read it with: gpumem-analyze report.bin\n"


def test_names(client, simulate, tmp_path):
    """Earlier captures are never touched; %p, %r and %h; ranks from launchers."""
    def files(**env):
        before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.bin")}
        simulate(client, preload=True, env={**QUIET, **env})
        after = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.bin")}
        assert all(after[path] == before[path] for path in before)
        return [p.relative_to(tmp_path).as_posix() for p in after if p not in before]

    assert files() == ["report.bin"]
    assert files() == ["report-2.bin"]
    assert files() == ["report-3.bin"]
    assert files(GPUMEM_OUTPUT="a.b.bin") == ["a.b.bin"]
    assert files(GPUMEM_OUTPUT="a.b.bin") == ["a.b-2.bin"]
    (folder := tmp_path / "out").mkdir()
    assert files(GPUMEM_OUTPUT=str(folder / "r%r-%h.bin"), RANK="5", WORLD_SIZE="8") == [
        f"out/r5-{os.uname().nodename}.bin"
    ]
    [by_pid] = files(GPUMEM_OUTPUT="p%p.bin")
    assert re.fullmatch(r"p\d+\.bin", by_pid)
    assert files(RANK="3", WORLD_SIZE="4") == ["report.rank3.bin"]
    assert files(RANK="3", WORLD_SIZE="4") == ["report.rank3-2.bin"]
    assert files(OMPI_COMM_WORLD_RANK="1", OMPI_COMM_WORLD_SIZE="2") == ["report.rank1.bin"]
    assert files(SLURM_PROCID="2", SLURM_NTASKS="4") == ["report.rank2.bin"]


def test_facts(client, simulate, read, tmp_path):
    simulate(client, preload=True, env={**QUIET, "RANK": "3", "WORLD_SIZE": "4", "GPUMEM_STACKS": "off"})
    facts = read(tmp_path / "report.rank3.bin").facts
    assert facts["command"] == f"{client[0]} handle"
    assert facts["executable"] == str(Path(client[0]).resolve())
    assert facts["directory"] == str(tmp_path)
    assert (facts["rank"], facts["world_size"]) == ("3", "4")
    assert facts["driver_version"] == "13020"
    assert facts["stacks"] == "off"


@pytest.mark.parametrize("where", ("no such folder", "a file", "a read-only folder"))
def test_an_output_that_cannot_be_written(where, client, simulate, tmp_path):
    (tmp_path / "file").write_text("")
    output = {
        "no such folder": tmp_path / "none" / "report.bin",
        "a file": tmp_path / "file" / "report.bin",
        "a read-only folder": Path("/proc/report.bin"),
    }[where]
    without = simulate(client)
    done = simulate(client, preload=True, env={"GPUMEM_OUTPUT": str(output)})
    assert done.stdout == without.stdout
    [line] = done.stderr.splitlines()
    assert line.startswith("gpumem: ") and str(output) in line and "GPUMEM_OUTPUT" in line


@pytest.mark.parametrize(
    "name, value", (
        ("GPUMEM_STACKS", "all"), ("GPUMEM_RING", "many"), ("GPUMEM_RING_SLOTS", "many"), ("GPUMEM_QUIET", "yes"), ("GPUMEM_BOUNDED", "1MiB"),
    )
)
def test_an_option_that_is_none(name, value, client, simulate, tmp_path):
    """One line that names variable, value and what is accepted; the default holds."""
    done = simulate(client, preload=True, env={**QUIET, name: value})
    line = done.stderr.splitlines()[0]
    assert line.startswith(f"gpumem: {name}={value}: ") and "ccepted" in line
    assert (tmp_path / "report.bin").is_file()


def test_the_docs_are_the_table(python_env):
    """docs/environment.md holds the options as the library itself prints them."""
    script = (
        "import ctypes, sys\n"
        "lib = ctypes.CDLL(None)\n"
        "text = ctypes.create_string_buffer(lib.gpumem_help_env(None, 0) + 1)\n"
        "lib.gpumem_help_env(text, len(text))\n"
        "sys.stdout.write(text.value.decode())\n"
    )
    told = harness.run([python_env("py312"), "-c", script], env=harness.preloaded()).stdout
    assert told.startswith("GPUMEM_OUTPUT\n")
    assert told in (harness.ROOT / "docs" / "environment.md").read_text()


def test_stderr_that_became_something_else(build_c, simulate, tmp_path):
    """When a program closes descriptor 2 and opens a file in its place, gpumem writes no line into that file."""
    client = build_c("hook_lookup.c", "-ldl")
    command = ["bash", "-c", 'exec 2> own-file; exec "$0" handle', client]
    done = simulate(command, preload=True, env={"GPUMEM_QUIET": "1"})
    assert (done.stderr, (tmp_path / "own-file").read_text()) == ("", "")
    command = ["bash", "-c", 'exec 2>&-; exec "$0" handle', client]
    done = simulate(command, preload=True)
    assert done.stderr == ""


def test_the_c_api_from_python(python_env, simulate, tmp_path):
    script = (
        "import ctypes\n"
        "lib = ctypes.CDLL(None)\n"
        "assert lib.gpumem_api_version() == 7\n"
        "assert lib.gpumem_recording() == 0\n"
        "out = (ctypes.c_uint64 * 4)()\n"
        "assert lib.gpumem_counters(0, 1, out) == 1\n"
        "assert lib.gpumem_counters(0, 9, out) == 2\n"
        "assert lib.gpumem_counters(0, 1, None) == 2\n"
        "text = ctypes.create_string_buffer(lib.gpumem_help_env(None, 0) + 1)\n"
        "lib.gpumem_help_env(text, len(text))\n"
        "assert b'GPUMEM_OUTPUT' in text.value and len(text.value) == len(text) - 1\n"
        "short = ctypes.create_string_buffer(8)\n"
        "lib.gpumem_help_env(short, 8)\n"
        "assert short.value == text.value[:7]\n"
        "cuda = ctypes.CDLL('libcuda.so.1')\n"
        "context, pointer = ctypes.c_void_p(), ctypes.c_uint64()\n"
        "assert cuda.cuInit(0) == 0\n"
        "assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0\n"
        "assert cuda.cuCtxSetCurrent(context) == 0\n"
        "assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(12345)) == 0\n"
        "assert lib.gpumem_recording() == 1\n"
        "assert lib.gpumem_counters(0, 1, out) == 0\n"
        "assert list(out) == [12345, 12345, 1, 0]\n"
    )
    done = simulate([python_env("py312"), "-c", script], preload=True, env=QUIET)
    assert (done.stdout, done.stderr) == ("", "")
    assert os.listdir(tmp_path) == ["report.bin"]
