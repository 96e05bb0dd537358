"""libgpumem.so by itself: the ways in which programs reach CUDA, and that programs are not affected. C and C++ clients
on the simulated driver. test_interposer_records.py has the records of each call, test_interposer_settings.py the
options, paths and messages.

Every capture is replayed here from its records, independently of the analyzer: each live address is unique, and the
replay must give the shared counters."""

import json
import os
import re
from collections import namedtuple

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
