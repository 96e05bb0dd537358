"""libgpumem.so by itself: the records of each call, also in children, threads, and processes that end early. On the
simulated driver and on a fake one that follows the test's commands."""

import signal
import subprocess

import harness
import pytest
from test_interposer import (  # noqa: F401  (fixtures are taken by name)
    ADDRESS, ADDRESS_END, ALLOC, CANCEL, CONTEXT, CONTEXT_END, FREE, LARGE_RING, MANAGED, MAP, MIB, MISMATCH, OUT_OF_MEMORY, QUIET, RESET,
    STREAM_ORDERED, UNKNOWN_POINTER, UNMAP, VMM_HANDLE, both, everything, read, replayed, story,
)


def test_every_kind_of_memory(build_c, both, read, tmp_path):  # noqa: F811
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


def test_the_runtime_by_name(build_c, both, read, tmp_path, cudart102):  # noqa: F811
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


def test_every_call_passes_through_once_and_unchanged(build_c, read, tmp_path):  # noqa: F811
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


def test_pytorchs_reports(build_c, both, read, tmp_path):  # noqa: F811
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


def test_a_child_of_a_process_without_cuda(build_c, both, read, tmp_path):  # noqa: F811
    done = both([build_c("hook_fork.c", "-ldl", "-pthread"), "before"])
    assert "child: 1000 live" in done.stdout and "parent: 2000 live" in done.stdout
    live = [read(tmp_path / name).counters["driver", 0][0] for name in ("report.bin", "report-2.bin")]
    assert live == [1000, 2000]


def test_a_child_of_a_recording_process(build_c, both, read, tmp_path):  # noqa: F811
    """Whatever it calls, the parent's capture does not have it, and the child has no separate capture."""
    both([build_c("hook_fork.c", "-ldl", "-pthread"), "after"])
    assert [p.name for p in tmp_path.glob("report*")] == ["report.bin"]
    capture = read(tmp_path / "report.bin")
    assert capture.counters["driver", 0] == [9000, 9000, 2, 0]
    assert len({e["thread"] for e in capture.events}) == 1


def test_forks_while_threads_allocate(build_c, both, read, tmp_path):  # noqa: F811
    both([build_c("hook_fork.c", "-ldl", "-pthread"), "busy"], env=LARGE_RING)
    assert [p.name for p in tmp_path.glob("report*")] == ["report.bin"]
    assert read(tmp_path / "report.bin").counters["driver", 0][:2] >= [7000, 7000]


def test_cuda_in_a_plugins_destructor(build_c, both, read, tmp_path):  # noqa: F811
    """It runs after our own end: still passed on, and still recorded."""
    plugin = build_c("hook_plugin.c", "-shared", "-fPIC", "-ldl")
    done = both([build_c("hook_loader.c", "-ldl"), plugin, "x"])
    assert "in the destructor: 6291456 live" in done.stdout
    capture = read(tmp_path / "report.bin")
    assert capture.counters["driver", 0] == [6 * MIB, 6 * MIB, 3, 1]


def test_threads(build_c, both, read, tmp_path):  # noqa: F811
    """Eight threads at once: no event is lost, and the order is exact (checked by the replay)."""
    both([build_c("hook_threads.c", "-ldl", "-pthread"), "join"], env=LARGE_RING)
    capture = read(tmp_path / "report.bin")
    blocks = 8 * 4000
    assert capture.counters["driver", 0][2:] == [blocks, blocks - 8 * 10]
    assert len({e["thread"] for e in capture.events if e["kind"] == ALLOC}) == 8


@pytest.mark.parametrize("how", ("exit", "_exit"))
def test_exit_while_threads_allocate(how, build_c, both, read, tmp_path):  # noqa: F811
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


def test_killed(build_c, read, tmp_path):  # noqa: F811
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
