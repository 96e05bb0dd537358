"""The durations of CUDA's memory functions that the recorder measures: every call of the program once, under the
name that the program called. Calls that fail and those that initialize the runtime are separate.

What breaks these tests: a call that is not timed or timed twice, a failed one among those that succeeded, a real
call that is not between the two readings of the clock."""

import harness
import pytest
from test_interposer import QUIET, both  # noqa: F401  (fixtures are taken by name)

LATENCY_US = 3000


def times(summary, kind="times"):
    """Calls by function, checked for what must hold of each row."""
    found = {}
    for row in summary["calls"]:
        of = row.get(kind)
        if of is None:
            continue
        assert of["calls"] > 0
        assert of["mean_ns"] == of["total_ns"] // of["calls"] <= of["greatest_ns"] <= of["total_ns"]
        assert sum(bucket["calls"] for bucket in of["histogram"]) == of["calls"]
        longest = of["histogram"][-1]["from_ns"]
        assert longest == 512 or longest <= of["greatest_ns"] < 2 * longest
        found[row["function"]] = of
    return found


def counts(found):
    return {function: of["calls"] for function, of in found.items()}


def test_each_call_of_the_driver_is_timed_once(build_c, both, analyze_json, tmp_path):  # noqa: F811
    done = both([build_c("call_times.c", "-ldl")], env={"GPUMEM_SIM_ALLOCATION_US": str(LATENCY_US)})
    assert done.stdout.count("too much: 2\n") == 2
    summary = analyze_json("report", "--all", tmp_path / "report.bin")
    succeeded, failed, set_up = (times(summary, kind) for kind in ("times", "failed_times", "set_up_times"))
    assert counts(succeeded) == {
        "cuMemAlloc_v2": 6, "cuMemFree_v2": 6, "cuMemAddressReserve": 1, "cuMemAddressFree": 1, "cuMemCreate": 2, "cuMemMap": 2,
        "cuMemSetAccess": 1, "cuMemUnmap": 1, "cuMemRelease": 2,
    }  # fmt: skip
    assert counts(failed) == {"cuMemAlloc_v2": 2, "cuMemSetAccess": 1}
    # A call that frees no memory does not show the duration of a release.
    assert counts(set_up) == {"cuMemFree_v2": 1}
    # The simulator sleeps in each call of cuMemAlloc that succeeds.
    slow = succeeded["cuMemAlloc_v2"]
    assert slow["mean_ns"] >= LATENCY_US * 1000
    assert all(bucket["from_ns"] >= 1 << 21 for bucket in slow["histogram"])
    # All of it is within the time of the process.
    spent = sum(of["total_ns"] for found in (succeeded, failed, set_up) for of in found.values())
    assert spent < summary["process"]["duration_ns"]
    called = {row["function"]: row["calls"] for row in summary["calls"]}
    for function, calls in counts(succeeded).items():
        assert called[function] == calls + counts(failed).get(function, 0) + counts(set_up).get(function, 0)


def test_the_text_has_a_row_for_each_kind(build_c, both, analyze, tmp_path):  # noqa: F811
    both([build_c("call_times.c", "-ldl")], env={"GPUMEM_SIM_ALLOCATION_US": str(LATENCY_US)})
    text = analyze("report", "--all", tmp_path / "report.bin").stdout
    table = text.split("calls of memory functions")[1].splitlines()[1:]
    names = [line.split("  ")[0] for line in table]
    # What took longest in all comes first.
    assert names[0] == "cuMemAlloc_v2" and "cuMemAlloc_v2, failed" in names and "cuMemFree_v2, with set-up" in names
    number, mean, unit = table[0].split()[1:4]
    assert (number, unit) == ("6", "ms") and float(mean) >= LATENCY_US / 1000


def test_a_call_of_the_runtime_goes_by_its_own_name(build_c, both, analyze_json, tmp_path, cudart102):  # noqa: F811
    """On NVIDIA's real runtime: what it calls below is a part of the call."""
    client = build_c("hook_runtime.c", cudart102 / "libcudart.so.10.2", f"-Wl,-rpath,{cudart102}", "-ldl")
    both([client], env={"GPUMEM_SIM_PROFILE": "cuda10", "GPUMEM_SIM_ALLOCATION_US": str(LATENCY_US)})
    summary = analyze_json("report", "--all", tmp_path / "report.bin")
    succeeded, failed, set_up = (times(summary, kind) for kind in ("times", "failed_times", "set_up_times"))
    assert not [name for name in {**succeeded, **failed, **set_up} if not name.startswith("cuda")]
    every = {
        name: sum(counts(of).get(name, 0) for of in (succeeded, failed, set_up))
        for name in {**succeeded, **failed, **set_up}
    }
    called = {row["function"]: row["calls"] for row in summary["calls"] if row["function"] in every}
    assert every == called
    assert counts(failed) == {"cudaMalloc": 1, "cudaFree": 1}
    assert counts(succeeded)["cudaFree"] == 3 and counts(set_up)["cudaFree"] == 1
    for name in ("cudaMalloc", "cudaMallocPitch", "cudaMalloc3D", "cudaMallocManaged", "cudaMallocHost", "cudaHostAlloc"):
        assert counts(succeeded).get(name, 0) + counts(set_up).get(name, 0) == 1, name
    first = succeeded.get("cudaMalloc") or set_up["cudaMalloc"]
    assert first["mean_ns"] >= LATENCY_US * 1000


@pytest.mark.parametrize("how, counted", (("join", True), ("_exit", False)))
def test_times_are_there_where_calls_are(how, counted, build_c, simulate, analyze_json, tmp_path):
    """Of all threads together; as the number of calls, not of a program that leaves without its exit handlers."""
    client = build_c("hook_threads.c", "-ldl", "-pthread")
    simulate([client, how], preload=True, env=QUIET, check=False)
    summary = analyze_json("report", "--all", tmp_path / "report.bin")
    called = {row["function"]: row["calls"] for row in summary["calls"]}
    if counted:
        assert counts(times(summary)) == {name: called[name] for name in ("cuMemAlloc_v2", "cuMemFree_v2")}
        assert called["cuMemAlloc_v2"] == 8 * 4000
    else:
        assert called["cuMemAlloc_v2"] is None and times(summary) == {}


def test_the_simulator_counts_the_same_calls(build_c, simulate):
    """The calls of the simulated driver in a replay of expandable segments."""
    ask = harness.WORKLOADS / "sim_calls.py"
    done = simulate(["python3", ask])
    assert done.stdout.split() == ["cuMemCreate", "2", "1", "cuMemRelease", "1", "1", "unknown", "1"]
