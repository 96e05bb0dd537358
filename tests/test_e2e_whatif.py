"""Records of PyTorch's allocator, and their replays: figures equal those of programs that are run for real.

What breaks these tests: an allocation whose request, stream or pool is recorded wrongly, a call of the allocator
that is not recorded, a replay that takes a step in another way than the program did. tests/lib/whatif.py is the
campaign of random programs."""

import json
import re
import subprocess
import sys

import harness
import pytest
import schemas
import spec_reader
import whatif
import whatif_intervals as intervals
from gpumem._text.sizes import text as size_text
from gpumem._whatif.prices import Price, Prices, duration
from lanes import slow

TREES = ["branches", *slow("compiled")]
# A training, trees of CUDA graphs, and what a program may do with streams, pools and memory fractions.
PROGRAMS = ["random:1", *TREES, *slow("lengths", "gpt", "convnet", "generate", "fsdp", "switches")]
PROGRAMS += slow(*(f"random:{n}" for n in (0, *range(2, 8))), *(f"wide:{n}" for n in range(3)), *(f"restored:{n}" for n in (14, 15)))
SETTINGS = [whatif.SETTINGS[n] for n in (0, 1, 3, 6)]


@pytest.fixture(scope="module")
def bench(python_env, tmp_path_factory):
    bench = whatif.Bench(python_env("torch215"), tmp_path_factory.mktemp("captures"))
    yield bench
    bench.close()


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_replay_has_the_figures_of_a_rerun(program, bench):
    capture, real = bench.record(program)
    peaks = set()
    for settings in SETTINGS:
        rerun, differ = bench.differences(program, capture, settings, whatif.ROOMY)
        assert differ == {}, settings
        peaks.add(rerun["figures"]["reserved_bytes.all.peak"])
    assert real["figures"]["allocated_bytes.all.peak"] > 10 << 20
    # The settings make a difference, or these comparisons would say nothing.
    assert len(peaks) > 1 or program == "generate"


@pytest.mark.parametrize("program", ["random:1", *slow("random:4", "wide:2")])
def test_a_replay_fails_where_the_program_does(program, bench):
    capture, real = bench.record(program)
    small = whatif.cards(real)[-1]
    for settings in SETTINGS:
        rerun, differ = bench.differences(program, capture, settings, small)
        assert differ == {}, settings
        assert rerun["failures"] == 1


def restores(capture):
    """Events by which pools were set back."""
    allocator, checkpoint = 28, 14
    events = (fields for word, *fields in spec_reader.read(capture).order.records if word == "event")
    return [seq for seq, _, _, _, aux, _, _, _, kind, *_ in events if (kind, aux) == (allocator, checkpoint)]


@pytest.mark.parametrize("program", TREES)
def test_a_tree_of_graphs_fails_where_the_program_does(program, bench):
    capture, real = bench.record(program)
    set_back = restores(capture)
    assert len(set_back) > 4
    card = real["foreign"] + real["figures"]["reserved_bytes.all.peak"] - (16 << 20)
    late = 0
    for settings in SETTINGS:
        rerun, differ = bench.differences(program, capture, settings, card)
        assert differ == {}, settings
        late += bench.replay(capture, settings, card).outcome["failed_seq"] > set_back[2]
    assert late > 1


def test_a_pool_that_has_lost_a_segment_cannot_be_set_back(bench, python_env):
    settings = "max_split_size_mb:64"
    capture, real = bench.record("loses")
    card = real["foreign"] + real["figures"]["reserved_bytes.all.peak"] - (50 << 20)
    rerun, differ = bench.differences("loses", capture, settings, card)
    assert differ == {} and rerun["failed"]
    said = gpumem(python_env("torch215"), capture, "--conf", settings, "--card", card, "--format", "json")
    own, other = schemas.found("whatif", said.stdout)["devices"][0]["replays"]
    # Without it there is no room, which is another failure.
    assert (own["failure"]["bytes"], other["failure"]["bytes"]) == (400 << 20, 0)
    assert other["failure"]["event"] > own["failure"]["event"]
    text = " ".join(gpumem(python_env("torch215"), capture, "--conf", settings, "--card", card).stdout.split())
    assert f"{settings} fails last. A CUDA graph's pool lost memory and cannot be restored" in text


def gpumem(python, *words, command="whatif"):
    return subprocess.run(
        [python, "-m", "gpumem", command, *map(str, words)], capture_output=True, text=True, timeout=200,
        env=harness.clean_environment({"PYTHONPATH": str(harness.ROOT / "python")}),
    )  # fmt: skip


def test_the_command(bench, python_env):
    python = python_env("torch215")
    capture, real = bench.record("lengths")
    [alone] = intervals.ways(bench, capture, "", whatif.ROOMY).replays
    assert not any(alone.outcome[what] for what in ("sizes_unknown", "waits_unknown", "stand_ins"))
    done = gpumem(python, capture)
    assert done.returncode == 0, done.stderr
    first = " ".join(done.stdout.split("\n\n")[0].split())
    assert "reserved at the peak" in first and "less (" in first
    wide = [line for line in done.stdout.splitlines()[3:] if len(line) > 80 and "export" not in line and "  memory is mapped" not in line]
    assert wide == []
    conf = "expandable_segments:True"
    done = gpumem(python, capture, "--conf", conf, "--format", "json", "--smallest-card")
    [device] = schemas.found("whatif", done.stdout)["devices"]
    told = gpumem(python, capture, "--conf", conf, "--smallest-card")
    assert told.returncode == 0 and "smallest card" in told.stdout, told.stderr
    own, other = device["replays"]
    assert (own["settings"], other["settings"]) == ("", conf)
    assert own["figures"] == own["figures_least"] == own["figures_greatest"] and own["replays"] == 1 and own["fits"] is True
    assert own["figures"]["reserved_bytes.all.peak"] == real["figures"]["reserved_bytes.all.peak"] == device["reserved_peak_bytes"]
    for replay in (own, other):
        least = replay["smallest_card_bytes"]
        _, differ = bench.differences("lengths", capture, replay["settings"], least)
        assert not bench.real.run("lengths", replay["settings"], least)["failed"] and differ == {}
        assert bench.real.run("lengths", replay["settings"], least - whatif.PAGE)["failed"]


def test_a_card_that_is_too_small(bench, python_env):
    capture, real = bench.record("generate")
    card = whatif.cards(real)[-1]
    done = gpumem(python_env("torch215"), capture, "--card", card, "--conf", "expandable_segments:True")
    rerun = bench.real.run("generate", "", card)
    first = " ".join(done.stdout.split("\n\n")[0].split())
    assert "does not fit a card of" in first
    assert f"whatif/trainings.py:{rerun['failed']}," in first, done.stdout
    advice = done.stdout.splitlines()[-1].partition("gpumem-analyze ")[2].split()
    held = harness.run([harness.ANALYZER, *advice]).stdout
    assert "trainings.py" in held


def test_a_capture_of_another_release_is_replayed_and_said_to_be_inexact(python_env, tmp_path):
    recorded, capture = whatif.Programs(python_env("torch112"), True), tmp_path / "report.bin"
    real = recorded.run("convnet", capture=str(capture))
    recorded.close()
    done = gpumem(python_env("torch215"), capture, "--conf", "max_split_size_mb:64", "--format", "json")
    said = schemas.found("whatif", done.stdout)
    assert done.returncode == 3 and not said["exact"]
    unseen, version, asked = said["doubts"]
    assert "pools of CUDA graphs" in unseen and "the effect has no known bound" in unseen and "the streams of blocks" not in unseen
    assert "recorded with PyTorch 1.12" in version and "replayed with 2.15" in version
    # No block was used on another stream, so when those were free again is no question.
    assert "the requested size of" in asked and "allocations is not known" in asked and "intervals" in asked and "other streams" not in asked
    # The rules of the pool are the same in both without settings.
    own = said["devices"][0]["replays"][0]
    for name in ("reserved_bytes.all.peak", "segment.all.allocated"):
        assert own["figures_least"][name] == own["figures_greatest"][name] == real["figures"][name]
    assert own["figures_least"]["requested_bytes.all.peak"] < own["figures_greatest"]["requested_bytes.all.peak"]
    assert own["replays"] == 2


def test_what_would_have_saved_a_run_is_said_and_true(python_env, tmp_path):
    python = python_env("torch215")
    command = [harness.WITH_SIMULATOR, "--memory", "1536MiB", python, "-W", "ignore"]
    command += [harness.WORKLOADS / "out_of_memory.py", "fragmentation"]
    env = {"GPUMEM_QUIET": "1", "GPUMEM_POSTMORTEM": "off", "GPUMEM_OUTPUT": tmp_path / "report.bin"}
    died = harness.run(command, env=harness.clean_environment({**env, "LD_PRELOAD": harness.LIBRARY}))
    assert "CAUGHT" in died.stdout
    said = schemas.found("oom", gpumem(python, tmp_path / "report.bin", "--format", "json", command="oom").stdout)["cause"]
    assert (said["kind"], said["certainty"]) == ("fragmentation", "proven")
    settings = re.match(r"set PYTORCH_CUDA_ALLOC_CONF=(\S+) \(replayed: the request succeeds, ", said["advice"])[1]
    # Without a PyTorch that replays, it is not known.
    alone = schemas.found("oom", harness.analyze("oom", "--format", "json", tmp_path / "report.bin").stdout)["cause"]
    assert alone["certainty"] == "follows" and "not tried: " in alone["advice"]
    saved = harness.run(command, env=harness.clean_environment({"PYTORCH_CUDA_ALLOC_CONF": settings}))
    assert "CAUGHT" not in saved.stdout and "LIVE" in saved.stdout


def test_what_cannot_be_replayed_is_one_line(tmp_path):
    empty = tmp_path / "report.bin"
    empty.write_bytes(b"")
    done = gpumem(sys.executable, empty)
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1 and str(empty) in done.stderr


def test_what_pytorch_warns_of_does_not_stop_a_replay(bench):
    """Expandable segments warn of each failure to map memory: more than a pipe takes."""
    capture, _ = bench.record("warnings")
    rerun, differ = bench.differences("warnings", capture, "expandable_segments:True", 700 << 20)
    assert differ == {} and rerun["figures"]["num_alloc_retries"] > 500


def test_another_allocator_is_not_modelled(python_env, tmp_path):
    python, capture = python_env("torch215"), tmp_path / "report.bin"
    env = {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync", "GPUMEM_QUIET": "1", "GPUMEM_OUTPUT": capture}
    program = "import torch; torch.empty(1000, device='cuda')"
    harness.run(
        [harness.WITH_SIMULATOR, python, "-c", program], env=harness.clean_environment({**env, "LD_PRELOAD": harness.LIBRARY})
    )
    done = gpumem(python, capture)
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1 and "cudaMallocAsync, which is not modelled" in done.stderr


def priced(python, capture, *words):
    """The command's JSON for a capture: replays by settings."""
    done = gpumem(python, capture, "--format", "json", *words)
    [device] = schemas.found("whatif", done.stdout)["devices"]
    return {replay["settings"]: replay for replay in device["replays"]}


def recorded_times(capture, kind="times"):
    rows = harness.analyze_json("report", "--all", capture)["calls"]
    return {row["function"]: row[kind] for row in rows if row.get(kind)}


def made(replay, outcome="succeeded"):
    return {name: calls[outcome] for name, calls in replay["calls"].items() if calls[outcome]}


EXPANDABLE = "expandable_segments:True"
MAPPING = ("cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap", "cuMemRelease", "cuMemAddressReserve", "cuMemAddressFree")


@pytest.fixture
def run_calls(python_env, tmp_path):
    """run_calls(settings, memory) runs a program that calls CUDA much, recorded; the capture and PyTorch's own figures. The
    process has ended by then: times are written at its end."""

    def run(settings="", memory="16GiB"):
        env = {"PYTORCH_CUDA_ALLOC_CONF": settings, "GPUMEM_QUIET": "1", "GPUMEM_POSTMORTEM": "off"}
        command = [python_env("torch215"), "-W", "ignore", harness.WORKLOADS / "whatif" / "calls.py"]
        done = harness.simulate(command, preload=True, cwd=tmp_path, env=env, memory=memory)
        return tmp_path / "report.bin", json.loads(done.stdout)

    return run


@pytest.mark.parametrize("settings, other, functions", (pytest.param("", EXPANDABLE, ("cudaMalloc", "cudaFree"), marks=pytest.mark.slow), (EXPANDABLE, "", MAPPING)))
def test_a_replay_makes_the_calls_of_the_run_and_has_their_time(settings, other, functions, run_calls, python_env):
    """The calls that PyTorch made in the run, and no others, are those of its replay; of other calls there is no time."""
    python = python_env("torch215")
    capture, real = run_calls(settings)
    times = recorded_times(capture)
    of = priced(python, capture, "--conf", other)
    own = of[settings]
    assert set(made(own)) == set(functions)
    assert made(own) == {name: times[name]["calls"] for name in functions}
    assert sum(made(own).get(name, 0) for name in ("cudaMalloc", "cuMemSetAccess")) == real["num_device_alloc"] > 20
    assert own["time_in_calls_ns"] == sum(times[name]["total_ns"] for name in functions) > 0
    assert own["calls_without_time"] == []
    assert of[other]["time_in_calls_ns"] is None
    assert of[other]["calls_without_time"] == list(made(of[other])) != []
    text = gpumem(python, capture, "--conf", other).stdout
    lines = text.splitlines()
    [head] = [number for number, line in enumerate(lines) if line.startswith(" settings")]
    assert "CUDA calls  time in calls  retries" in lines[head]
    end = lines[head].index("time in calls") + len("time in calls")
    rows = lines[head + 1 : lines.index("* as recorded")]
    # A long name has a separate line.
    empty, filled = sorted(line[end - len("time in calls") : end].strip() for line in rows if line.endswith(" 0"))
    assert empty == "" and re.fullmatch(r"[\d.]+ (µs|ms|s)", filled)
    said = " ".join(text.split())
    assert f"{capture} has no time of {', '.join(of[other]['calls_without_time'])}" in said


def test_calls_that_fail_are_priced_as_such(run_calls, python_env):
    """A run without failures cannot show the time of a failed call; one with a failure can."""
    python = python_env("torch215")
    capture, real = run_calls()
    roomy = priced(python, capture, "--card", "900MiB", "--conf", "")[""]
    assert not real["failed"] and made(roomy, "failed") == {"cudaMalloc": 2}
    assert roomy["time_in_calls_ns"] is None and roomy["calls_without_time"] == ["cudaMalloc (failed)"]
    capture.unlink()
    capture, real = run_calls(memory="900MiB")
    assert real["failed"] and real["num_alloc_retries"] == 1
    tight = priced(python, capture, "--conf", "")[""]
    times, failed = recorded_times(capture), recorded_times(capture, "failed_times")
    assert made(tight, "failed") == {name: of["calls"] for name, of in failed.items()} == {"cudaMalloc": 2}
    assert tight["time_in_calls_ns"] == failed["cudaMalloc"]["total_ns"] + sum(times[name]["total_ns"] for name in made(tight))


def test_times_are_never_guessed():
    prices = Prices([
        {"function": "cudaMalloc", "times": {"calls": 3, "total_ns": 10}, "set_up_times": {"calls": 1, "total_ns": 10**9}},
        {"function": "cuMemFree_v2", "times": {"calls": 2, "total_ns": 9}},
        {"function": None, "times": {"calls": 1, "total_ns": 7}},
    ])  # fmt: skip
    # The mean is not rounded before it is multiplied; a static runtime's calls are the driver's in a capture.
    assert prices.of({"cudaMalloc": (300, 0), "cudaFree": (4, 0), "cuMemMap": (0, 0)}) == Price(1018, ())
    assert prices.of({"cudaMalloc": (1, 2), "cuMemMap": (1, 0)}) == Price(None, ("cudaMalloc (failed)", "cuMemMap"))
    assert not Prices([{"function": "cudaMalloc", "calls": 3, "events": 3}])
    assert [duration(ns) for ns in (0, 999, 1000, 99_960, 12_449_000, 61_000_000_000)] == [
        "0 ns", "999 ns", "1.00 µs", "100 µs", "12.4 ms", "61.0 s",
    ]  # fmt: skip


@pytest.mark.slow
def test_what_cannot_be_better_is_not_replayed_to_its_end(bench, python_env):
    """Rows that were stopped are those that reserve more in the end, and no row that helps is one."""
    capture, _ = bench.record("random:5")
    python = python_env("torch215")
    [device] = schemas.found("whatif", gpumem(python, capture, "--format", "json").stdout)["devices"]
    own, *others = device["replays"]
    most = own["figures"]["reserved_bytes.all.peak"]
    stopped = {replay["settings"]: replay for replay in others if replay["stopped_at_event"]}
    assert stopped and len(stopped) < len(others)
    words = [word for settings in stopped for word in ("--conf", settings)]
    [whole] = schemas.found("whatif", gpumem(python, capture, *words, "--format", "json").stdout)["devices"]
    for replay in whole["replays"][1:]:
        assert replay["stopped_at_event"] is None
        assert replay["figures"]["reserved_bytes.all.peak"] > most
        assert replay["figures"]["reserved_bytes.all.peak"] >= stopped[replay["settings"]]["figures"]["reserved_bytes.all.peak"] > most
    for replay in others:
        if replay["settings"] not in stopped:
            assert replay["figures"]["reserved_bytes.all.peak"] <= most
    shown = gpumem(python, capture).stdout
    assert sum(f"> {size_text(most)}" in line for line in shown.splitlines()) == len(stopped)
