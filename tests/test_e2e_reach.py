"""Every way in which a client may reach the driver: each call is seen exactly once.

Each program compares the recorder's counters with the simulator's books while it runs, has the same effect with and
without the library, and leaves a capture whose events and hooks are counted here."""

import re

import harness
import pytest
from test_interposer import (  # noqa: F401  (fixtures are taken by name)
    ALLOC, CONTEXT, FREE, MIB, QUIET, both, read, simulator, story,
)


UNSEEN = {**QUIET, "REACH_UNSEEN": "1"}


def used_once(capture, library=None, way=None):
    told = [row for row in story(capture) if row[1] in (ALLOC, FREE) and row[2] == "driver"]
    assert told == [
        ("cuMemAlloc_v2", ALLOC, "driver", 3 * MIB),
        ("cuMemFree_v2", FREE, "driver", 3 * MIB),
    ]
    assert capture.counters["driver", 0] == [0, 3 * MIB, 1, 1]
    assert [kind for _, kind, level, _ in story(capture) if level == "driver"].count(CONTEXT) == 1
    if library is not None:
        assert ("cuMemAlloc_v2", way, library.name) in capture.hooks
        assert ("cuMemFree_v2", way, library.name) in capture.hooks


FLAGS = {
    "plain": [], "local": ["local"], "global": ["global"], "deep": ["deep"],
    "deep, local, lazy": ["deep", "local", "lazy"], "deep, global": ["deep", "global"],
}
WAYS = {
    "handle": "dlsym", "versioned": "dlsym", "proc": "cuGetProcAddress", "default": "dlsym",
    "next": "dlsym", "deep": "dlsym", "linked": "symbol",
}


@pytest.fixture
def plugin(build_c, simulator):  # noqa: F811
    def built(way):
        linked = ["-DLINKED", simulator / "libcuda.so.1"] if way in ("linked", "next") else []
        return build_c("reach_plugin.c", "-shared", "-fPIC", *linked, "-ldl")

    return built


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("way", WAYS)
def test_a_plugin(way, flags, plugin, build_c, both, read, tmp_path):  # noqa: F811
    library = plugin(way)
    done = both([build_c("reach_loader.c", "-ldl"), library, way, *FLAGS[flags]])
    assert f"{way}: 0 live, {3 * MIB} peak" in done.stdout
    capture = read(tmp_path / "report.bin")
    used_once(capture, library, WAYS[way])
    taken = [note for note in capture.notes if note.startswith("RTLD_DEEPBIND was taken from")]
    names = [library.name] if "deep" in FLAGS[flags] else []
    names += ["libcuda.so.1"] if way == "deep" else []
    assert len(taken) == len(names)
    assert all(any(note.endswith(name) for note in taken) for name in names)


@pytest.mark.parametrize("flags", ("plain", "deep"))
@pytest.mark.parametrize("way", ("handle", "versioned", "proc"))
def test_pointers_taken_in_a_constructor(way, flags, build_c, both, read, tmp_path):  # noqa: F811
    library = build_c("reach_plugin.c", "-shared", "-fPIC", f'-DEARLY="{way}"', "-ldl")
    both([build_c("reach_loader.c", "-ldl"), library, way, *FLAGS[flags]])
    used_once(read(tmp_path / "report.bin"), library, WAYS[way])


@pytest.mark.parametrize("way", ("handle", "proc"))
@pytest.mark.parametrize("first", (True, False), ids=("before us", "after us"))
def test_pointers_taken_by_a_preloaded_library(first, way, build_c, simulate, read, tmp_path):  # noqa: F811
    """Its constructor runs before any hook."""
    library = build_c("reach_plugin.c", "-shared", "-fPIC", f'-DEARLY="{way}"', "-ldl")
    order = [str(library), str(harness.LIBRARY)]
    preload = ":".join(order if first else reversed(order))
    client = build_c("reach_loader.c", "-ldl")
    done = simulate(["env", f"LD_PRELOAD={preload}", client, "-", way], env=QUIET)
    assert f"{way}: 0 live" in done.stdout and done.stderr == ""
    used_once(read(tmp_path / "report.bin"), library, WAYS[way])


VERSIONS = 22
STREAMS = 3


@pytest.mark.parametrize(
    "arguments, ways", (([], 5), (["entry"], 1), (["version"], 1)),
    ids=("cuGetProcAddress", "cudaGetDriverEntryPoint", "cudaGetDriverEntryPointByVersion"),
)
def test_every_version_of_cugetprocaddress(arguments, ways, build_c, both, read, tmp_path):  # noqa: F811
    done = both(
        [build_c("reach_versions.c", "-ldl"), *arguments], env={"GPUMEM_SIM_DRIVER_VERSION": "13050"}
    )
    rounds = VERSIONS * STREAMS * ways
    assert f"{rounds} rounds" in done.stdout
    capture = read(tmp_path / "report.bin")
    told = [row for row in story(capture) if row[2] == "driver" and row[1] != CONTEXT]
    assert len(told) == 4 * rounds
    sizes = [4096 + 256 * n for n in range(rounds)]
    for kind in (ALLOC, FREE):
        plain = [size for api, k, _, size in told if k == kind and "Async" not in api]
        ordered = [size for api, k, _, size in told if k == kind and "Async" in api]
        assert plain == sizes and ordered == sizes
    names = {api for api, *_ in told}
    assert {"cuMemAllocAsync", "cuMemAllocAsync_ptsz", "cuMemFreeAsync_ptsz"} <= names
    assert capture.counters["driver", 0][2:] == [2 * rounds, 2 * rounds]
    assert "cuGetProcAddress" in {way for _, way, _ in capture.hooks}


def test_threads_that_look_up_at_the_same_time(build_c, both, read, tmp_path):  # noqa: F811
    both([build_c("reach_threads.c", "-ldl", "-pthread")])
    capture = read(tmp_path / "report.bin")
    sizes = [size for _, kind, level, size in story(capture) if kind == ALLOC and level == "driver"]
    assert sorted(sizes) == [(n + 1) * MIB for n in range(16)]
    assert capture.counters["driver", 0] == [0, sum(sizes), 16, 16]


def test_a_deep_library_is_found_where_its_caller_looks(build_c, both, tmp_path):  # noqa: F811
    """The caller's RUNPATH holds although the call passes through us."""
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "libreachdeep.so").symlink_to(build_c("reach_deep.c", "-shared", "-fPIC"))
    client = build_c("reach_loader.c", f"-Wl,-rpath,{folder}", "-ldl")
    done = both([client, "libreachdeep.so", "yes", "deep"])
    assert done.stdout == "found by the caller's RUNPATH: yes\n"


def test_a_library_that_goes_past_is_named(plugin, build_c, simulate, read, analyze_json, tmp_path):  # noqa: F811
    """Loaded deep by the C library's own dlopen, it is bound to the driver: its calls are not seen, and
    the account does not say that all is well."""
    client = build_c("reach_loader.c", "-ldl")
    simulate([client, plugin("linked"), "linked", "deep", "past"], preload=True, env=UNSEEN)
    capture = read(tmp_path / "report.bin", whole=False)
    assert [row[3] for row in story(capture) if row[1] == ALLOC and row[2] == "driver"] == [4096]
    inexact = [note for note in capture.notes if note.startswith("inexact")]
    assert inexact == [
        f"inexact: {plugin('linked').name} is bound to the driver's cuMemAlloc_v2 past the recorder"
    ]
    summary = analyze_json("report", "--all", tmp_path / "report.bin", check=False)
    assert (summary["exact"], summary["missing"]) == (False, [inexact[0].removeprefix("inexact: ")])


def test_another_namespace_is_told_of(plugin, build_c, simulate, read, tmp_path):  # noqa: F811
    """The libraries of dlmopen have a separate driver that the recorder does not see; the account reports it."""
    client, library = build_c("reach_loader.c", "-ldl"), plugin("handle")
    simulate([client, library, "handle", "namespace"], preload=True, env=UNSEEN)
    capture = read(tmp_path / "report.bin", whole=False)
    assert [row[3] for row in story(capture) if row[1] == ALLOC and row[2] == "driver"] == [4096]
    inexact = [note for note in capture.notes if note.startswith("inexact")]
    assert len(inexact) == 1 and re.fullmatch(
        rf"inexact: \S*{library.name} was loaded into another namespace \(dlmopen\), whose calls are not recorded", inexact[0]
    )


def test_calls_are_counted(build_c, both, read, analyze_json, tmp_path):  # noqa: F811
    both([build_c("hook_threads.c", "-ldl", "-pthread"), "join"])
    capture = read(tmp_path / "report.bin")
    facts = capture.facts
    allocations, frees = 8 * 4000, 8 * 4000 - 8 * 10
    assert facts["calls.cuMemAlloc_v2"] == str(allocations)
    assert facts["calls.cuMemFree_v2"] == str(frees)
    summary = analyze_json("report", "--all", tmp_path / "report.bin")
    rows = {row["function"]: (row["events"], row["calls"]) for row in summary["calls"]}
    for function, calls in (("cuMemAlloc_v2", allocations), ("cuMemFree_v2", frees)):
        events = [e for e in capture.events if capture.apis.get(e["api"]) == function]
        assert len([e for e in events if e["level"] == "driver"]) == calls
        assert rows[function][1] == calls and rows[function][0] >= calls  # plus the events of its pages
    assert sum(calls for _, calls in rows.values()) == sum(
        int(value) for key, value in facts.items() if key.startswith("calls.")
    )


def test_calls_that_leave_no_event_are_counted(build_c, both, read, analyze_json, tmp_path):  # noqa: F811
    both([build_c("hook_lookup.c", "-ldl"), "second", "12000"])
    read(tmp_path / "report.bin")
    rows = {row["function"]: row for row in analyze_json("report", "--all", tmp_path / "report.bin")["calls"]}
    assert rows["cuGetProcAddress_v2"] == {"function": "cuGetProcAddress_v2", "events": 0, "calls": 2}


def test_a_static_cudart(forks, read, tmp_path):  # noqa: F811
    """PyTorch 1.12.1's allocator contains CUDA 10.2's runtime, and so do NVIDIA's libraries beside it: the calls of
    each are seen at the driver, once (checked by the replay). cuDNN calls a separate runtime by its file name: one
    event each, under that name."""
    forks("torch112").run([harness.WORKLOADS / "train.py", "--steps", "4", "--batch", "16"], cwd=tmp_path)
    capture = read(tmp_path / "report.bin")
    reached = {(library, way) for function, way, library in capture.hooks if function == "cuMemAlloc_v2"}
    assert {way for _, way in reached} == {"dlsym"}
    assert {"libc10_cuda.so", "libcublas.so.10", "libcublasLt.so.10"} <= {name for name, _ in reached}
    driver = [row for row in story(capture) if row[1] == ALLOC and row[2] == "driver"]
    by_name = [row for row in driver if row[0] == "cudaMalloc"]
    assert {api for api, *_ in driver} == {"cuMemAlloc_v2", "cudaMalloc"}
    assert int(capture.facts["calls.cuMemAlloc_v2"]) == len(driver)
    assert int(capture.facts["calls.cudaMalloc"]) == len(by_name)
    assert capture.counters["driver", 0][2] == len(driver)
