"""A replay as a capture: its figures are those of PyTorch's own allocator in the replay; everything else is as
recorded.

What breaks these tests: an event of the recorded pool that stays, or another library's that is removed; a block with
the address or the size that it had in the run; memory of the driver that does not belong to the pool's segments; a
stack or a number of an event that differs in the written capture."""

import subprocess
from bisect import bisect_right
from collections import Counter

import harness
import pytest
import schemas
import spec_reader
import whatif
from lanes import slow

ALLOC, FREE, MAP, UNMAP, OUT_OF_MEMORY, SAMPLE, RESIZE, CARD = 1, 2, 4, 5, 6, 14, 17, 18
ADDRESS, ADDRESS_END, PHASE_END, ROLE, ALLOCATOR = 19, 20, 25, 27, 28
RELEASED, CHECKPOINT, CHECKPOINT_END = 1, 14, 15
TENSOR, DRIVER, PHYSICAL = 0, 1, 3
MODULE, DEVICE, PROCESS = 132, 135, 136
MISMATCH, VMM_HANDLE, CODE = 2, 16, 512
UNKNOWN = 0xFFFFFFFF
# Streams, blocks that wait for other streams, MemPools, CUDA graphs, a memory fraction: 8 has all but the last, 7 that. Pools
# are set back in the first two.
RESTORING = ["branches", "restored:1"]
PROGRAMS, SLOW = ["branches", "lengths", "random:1"], ["restored:1", "gpt", *(f"random:{n}" for n in (2, 7, 8, 10))]
AS_RECORDED, AS_RECORDED_SLOW = ["branches", "random:1"], ["gpt", "random:8"]
EXPANDABLE = "expandable_segments:True"
SETTINGS = ["", EXPANDABLE, "max_split_size_mb:21", "roundup_power2_divisions:4,garbage_collection_threshold:0.6"]


class Runs(dict):
    """Captures and own figures, by program and settings. Those of slow tests are recorded at their first use."""

    def __init__(self, bench):
        self.bench = bench
        self.record(bench.recorded, PROGRAMS, AS_RECORDED)

    def __missing__(self, key):
        self.record(whatif.Programs(self.bench.python, True), SLOW, AS_RECORDED_SLOW)
        return self[key]

    def record(self, programs, default, expandable):
        for program, settings in [*((of, "") for of in default), *((of, EXPANDABLE) for of in expandable)]:
            self.run(programs, program, settings, whatif.ROOMY)
        if "random:1" in default:
            self.bench.tight = whatif.cards(self["random:1", ""][1])[-1]
            for settings in ("", EXPANDABLE):
                self.run(programs, "tight:1", settings, self.bench.tight)
        # Once the process has ended, its captures are whole.
        programs.close()

    def run(self, programs, program, settings, card):
        path = self.bench.folder / f"{len(self)}.bin"
        self[program, settings] = path, programs.run(program, settings, card, capture=str(path))


@pytest.fixture(scope="module")
def bench(python_env, tmp_path_factory):
    """Programs, which run for real, and `runs`, which were recorded."""
    bench = whatif.Bench(python_env("torch215"), tmp_path_factory.mktemp("captures"))
    bench.runs = Runs(bench)
    yield bench
    bench.real.close()
    bench.replays.__exit__()


class Capture:
    """A capture's figures for one device, from all its records by tests/spec_reader, not by gpumem's own reader."""

    def __init__(self, path):
        self.facts, self.modules, self.total = {}, [], None
        self.live, self.driver, self.mapped = {}, {}, {}
        self.allocated = self.requested = self.pool = self.physical = self.on_card = self.most = 0
        # What the card had to have for what other libraries took when the card had never given more.
        self.needed = []
        self.peaks = {"allocated": 0, "requested": 0, "reserved": 0}
        self.released, self.gone = 0, set()
        # The threads that set pools back; what they allocate then, which is not in the program's order.
        self.restoring, self.restored, self.restores = set(), Counter(), 0
        self.allocations, self.failures, self.others, self.readings, self.kinds = [], [], [], [], Counter()
        self.refused = self.phase_end = 0
        capture = spec_reader.read(path)
        assert capture.account["damage"] == []
        for word, seq, *fields in capture.order.records:
            if word == "definition":
                self.define(*fields)
            else:
                self.last = seq
                self.happen(seq, *fields)

    def define(self, kind, *fields):
        if kind == PROCESS:
            self.facts[fields[0]] = fields[1]
        elif kind == MODULE and fields[4].rpartition("/")[2].startswith("libc10_cuda"):
            self.modules.append(fields[2:4])
        elif kind == DEVICE:
            self.total = fields[1]

    def happen(self, seq, time, ptr, size, aux, py, native, thread, kind, level, device, api, flags, placement, slack):
        if kind == PHASE_END:
            self.phase_end = seq
        if level == TENSOR and device == 0 and kind in (ALLOC, FREE, OUT_OF_MEMORY):
            assert not flags & MISMATCH
            self.tensor(time, ptr, size, aux, (py, native, thread, placement), kind, slack)
        elif level == DRIVER and device == 0 and kind in (ALLOC, FREE, MAP, UNMAP, OUT_OF_MEMORY):
            self.of_driver(time, ptr, size, aux, kind, flags)
        elif level == PHYSICAL and device == 0 and kind in (ALLOC, FREE):
            self.physical += size if kind == ALLOC else -size
            self.took(size if kind == ALLOC else -size)
        elif (kind, level, device) == (ALLOCATOR, TENSOR, 0) and aux in (CHECKPOINT, CHECKPOINT_END):
            self.restores += aux == CHECKPOINT
            (self.restoring.add if aux == CHECKPOINT else self.restoring.remove)(thread)
        elif (kind, level, aux) == (ALLOCATOR, TENSOR, RELEASED) and device == 0:
            assert ptr in self.gone
            self.released += 1
        elif kind in (SAMPLE, CARD):
            self.readings.append((kind, time, size - self.physical))
        elif level == PHYSICAL and kind == OUT_OF_MEMORY:
            self.foreign_failure = (size, flags)
        elif kind != ROLE and (kind, level) != (ALLOCATOR, TENSOR) and kind not in (ADDRESS, ADDRESS_END):
            self.others.append((time, ptr, size, aux, py, native, thread, kind, level, device, api, flags))
            if kind == RESIZE and self.took(size - aux) and self.pool:
                self.needed.append((self.on_card, flags))

    def took(self, size):
        """The card gave so much; whether it had never given as much."""
        self.on_card += size
        self.most, before = max(self.most, self.on_card), self.most
        return self.most > before

    def tensor(self, time, ptr, size, aux, by, kind, slack):
        if kind == OUT_OF_MEMORY:
            assert ptr == self.allocated
            self.failures.append((time, size, by))
            return
        if kind == ALLOC:
            assert ptr not in self.live and self.is_held(ptr, size) and slack != UNKNOWN
            asked = size - slack
            self.live[ptr] = (size, asked)
            if by[2] in self.restoring:
                self.restored[asked, *by] += 1
            else:
                self.allocations.append((time, asked, *by))
        else:
            held, asked = self.live.pop(ptr)
            self.gone.add(ptr)
            assert held == size
            size, asked = -size, -asked
        self.allocated, self.requested = self.allocated + size, self.requested + asked
        # The bytes that PyTorch reports as reserved are those that it has from the driver.
        assert aux == self.pool
        now = {"allocated": self.allocated, "requested": self.requested, "reserved": aux}
        self.peaks = {name: max(peak, now[name]) for name, peak in self.peaks.items()}

    def of_driver(self, time, ptr, size, aux, kind, flags):
        if kind == OUT_OF_MEMORY:
            self.refused += 1
        elif kind == ALLOC:
            is_pools = any(start <= aux < end for start, end in self.modules)
            self.driver[ptr] = (size, is_pools)
            self.pool += size if is_pools else 0
            if not is_pools:
                self.others.append((time, ptr, size, "alloc"))
            elif not flags & VMM_HANDLE:
                self.mapped[ptr] = size
        elif kind == FREE:
            held, is_pools = self.driver.pop(ptr)
            assert held == size
            self.pool -= size if is_pools else 0
            if not is_pools:
                self.others.append((time, ptr, size, "free"))
            elif not flags & VMM_HANDLE:
                del self.mapped[ptr]
        elif kind == MAP:
            self.mapped[ptr] = size
        else:
            assert self.mapped.pop(ptr) == size

    def is_held(self, ptr, size):
        """A block lies in segments or mapped pieces that follow on one another."""
        starts = sorted(self.mapped)
        at = ptr
        while at < ptr + size:
            place = bisect_right(starts, at) - 1
            start = starts[place] if place >= 0 else None
            if start is None or start + self.mapped[start] <= at:
                return False
            at = start + self.mapped[start]
        return True


def save(bench, capture, settings, card, to):
    """The replay's own figures, and its capture."""
    [replay] = bench.replays.all([whatif.Request(capture, 0, card, settings, save=to)])
    return replay, Capture(to)


def agree(replay, saved, path, analyze, analyze_json):
    """PyTorch's figures in the replay are those of its capture, by the independent reader and by gpumem's own."""
    names = {"allocated": "allocated_bytes", "requested": "requested_bytes", "reserved": "reserved_bytes"}
    figures = {name: replay.figures[f"{key}.all.peak"] for name, key in names.items()}
    assert saved.peaks == figures
    assert saved.pool == replay.figures["reserved_bytes.all.current"]
    assert "whole" in analyze("check", path).stdout
    summary = analyze_json("report", "--all", path)
    device = harness.device_of(summary)
    assert summary["exact"], summary["missing"]
    assert device["tensor"]["peak_bytes"] == figures["allocated"]
    assert device["reserved"]["peak_bytes"] == figures["reserved"]
    [pool] = analyze_json("ledger", "--pool", path)
    assert pool["reserved_peak"]["reserved_bytes"] == pool["at_reserved_peak"]["reserved_bytes"] == figures["reserved"]
    for at in (pool, pool["at_reserved_peak"]):
        assert sum(segment["bytes"] for segment in at["segments"]) == at["reserved_bytes"]
    return summary


@pytest.mark.parametrize("program", ["random:1", *slow("branches", "lengths", *SLOW)])
def test_the_capture_of_a_replay_has_the_replays_figures(program, bench, tmp_path, analyze, analyze_json):
    path, _ = bench.runs[program, ""]
    recorded, peaks = Capture(path), set()
    for number, settings in enumerate(SETTINGS):
        to = tmp_path / f"{number}.bin"
        replay, saved = save(bench, path, settings, whatif.ROOMY, to)
        agree(replay, saved, to, analyze, analyze_json)
        # The program's requests, times, threads and lines are those of the run, and so is all that does not belong to
        # PyTorch.
        assert saved.allocations == recorded.allocations
        assert saved.others == recorded.others
        # Segments are whole pages of the card: beside them it gave what it gave in the run.
        assert saved.physical - saved.pool == recorded.physical - recorded.pool
        # NVML's readings are moved with the pool: their part beyond it is unchanged.
        assert saved.readings == recorded.readings
        assert saved.total == whatif.ROOMY and saved.failures == []
        assert saved.restores == recorded.restores and (saved.restores > 0) == bool(saved.restored) == (program in RESTORING)
        peaks.add(saved.peaks["reserved"])
    assert len(peaks) > 1


@pytest.mark.parametrize("program", [*AS_RECORDED, *slow(*AS_RECORDED_SLOW)])
@pytest.mark.parametrize("settings", ["", EXPANDABLE])
def test_under_the_recorded_settings_it_says_what_the_recorded_one_says(program, settings, bench, tmp_path, analyze_json):
    path, _ = bench.runs[program, settings]
    to = tmp_path / "replay.bin"
    _, saved = save(bench, path, settings, whatif.ROOMY, to)
    recorded = Capture(path)
    for name in ("peaks", "allocations", "restored", "restores", "others", "readings", "pool", "physical", "total", "released"):
        assert getattr(saved, name) == getattr(recorded, name), name
    assert saved.released > 0 or program != "random:8"
    assert saved.restores > 4 or program != "branches"
    # And it can be replayed in its turn: streams, pools and calls are all in it.
    requests = [whatif.Request(capture, 0, whatif.ROOMY, "max_split_size_mb:64") for capture in (path, to)]
    first, second = bench.replays.all(requests)
    assert first.figures == second.figures and first.outcome["allocations"] == second.outcome["allocations"]
    assert saved.facts["allocator_conf"] == recorded.facts["allocator_conf"] == settings
    if "trained_until" in recorded.facts:
        assert int(saved.facts["trained_until"]) == saved.phase_end
    for command in ("lines", "ledger"):
        # What is handed out while a pool is set back has the time of its first event.
        also = ("time_ns",) if program in RESTORING else ()
        views = [without(analyze_json(command, capture), also) for capture in (path, to)]
        assert views[0] == views[1]


def without(view, also=()):
    """A view's JSON without what depends on addresses and on numbers of events. Of blocks of one size the allocator takes the
    one with the lowest address, so in which segment a block lies depends on them. A replay has a segment at the event of the
    tensor that needs it, so a reading of NVML between the two has a segment more or less; `readings` compares its part beyond
    the pool."""
    passed = ("seq", "first_seq", "last_seq", "pool", "nvml_process_bytes", "nvml_used_bytes", "reading", *also)
    if isinstance(view, dict):
        return {key: without(value, also) for key, value in view.items() if key not in passed}
    return [without(value, also) for value in view] if isinstance(view, list) else view


@pytest.mark.parametrize("program", ["random:1", *slow("random:2", "random:10")])
@pytest.mark.parametrize("settings", SETTINGS[:3])
def test_it_ends_with_the_failure(program, settings, bench, tmp_path, analyze, analyze_json):
    path, real = bench.runs[program, ""]
    to = tmp_path / "replay.bin"
    # When the code of kernels is measured depends on the machine. Where it is what a card has no room for, PyTorch's own
    # request is on a smaller one.
    small = whatif.cards(real)[-1]
    for card in range(small, small // 2, -8 * whatif.PAGE):
        to.unlink(missing_ok=True)
        replay, saved = save(bench, path, settings, card, to)
        if not replay.outcome["failed_foreign"]:
            break
    assert replay.outcome["failed_seq"] and not replay.outcome["failed_foreign"]
    summary = agree(replay, saved, to, analyze, analyze_json)
    assert len(saved.failures) == 1 and saved.total == card == summary["replayed"]["card_bytes"]
    recorded = Capture(path)
    count = replay.outcome["allocations"]
    assert saved.allocations == recorded.allocations[:count]
    # The line of the request that did not fit.
    assert saved.failures[0][2] == recorded.allocations[count][2:]
    assert saved.refused > 0 or settings == EXPANDABLE
    assert "trained_until" not in saved.facts
    oom = analyze_json("oom", to)
    assert [failure["event"] for failure in oom["failures"]] == [saved.last]


@pytest.mark.parametrize("settings", ["", EXPANDABLE])
def test_failures_of_the_run_are_those_of_the_replay_or_are_served(settings, bench, tmp_path, analyze, analyze_json):
    path, card = bench.runs["tight:1", settings][0], bench.tight
    to = tmp_path / "small.bin"
    replay, saved = save(bench, path, settings, card, to)
    agree(replay, saved, to, analyze, analyze_json)
    recorded = Capture(path)
    assert saved.failures == recorded.failures and len(saved.failures) == replay.figures["num_ooms"] > 0
    assert saved.allocations == recorded.allocations
    to = tmp_path / "roomy.bin"
    replay, saved = save(bench, path, settings, whatif.ROOMY, to)
    agree(replay, saved, to, analyze, analyze_json)
    # What could be served is made, and freed at once.
    served = [(time, asked, *by) for time, asked, by in recorded.failures]
    assert saved.failures == [] and Counter(saved.allocations) == Counter(recorded.allocations + served)


@pytest.mark.parametrize("program", ["lengths", *slow("gpt")])
def test_what_another_library_has_no_room_for_is_its_end(program, bench, tmp_path, analyze, analyze_json):
    path, _ = bench.runs[program, ""]
    to = tmp_path / "replay.bin"
    # PyTorch may have to empty its cache before the library's request, which then has room: an earlier moment is used.
    for needed, flags in reversed(Capture(path).needed):
        to.unlink(missing_ok=True)
        replay, saved = save(bench, path, "", needed - whatif.PAGE, to)
        if replay.outcome["failed_foreign"]:
            break
    assert replay.outcome["failed_foreign"]
    agree(replay, saved, to, analyze, analyze_json)
    assert saved.foreign_failure == (replay.outcome["failed_bytes"], flags & CODE)
    assert saved.on_card <= saved.total == needed - whatif.PAGE
    assert "OUT OF MEMORY" in analyze("oom", to).stdout


def gpumem(python, *words):
    return subprocess.run(
        [python, "-m", "gpumem", "whatif", *map(str, words)], capture_output=True, text=True, timeout=200,
        env=harness.clean_environment({"PYTHONPATH": str(harness.ROOT / "python")}),
    )  # fmt: skip


def test_the_command_writes_captures_that_say_what_they_are(bench, python_env, tmp_path, analyze, analyze_json):
    python, (path, _) = python_env("torch215"), bench.runs["lengths", ""]
    folder = tmp_path / "replays"
    done = gpumem(python, path, "--conf", EXPANDABLE, "--save", folder, "--format", "json")
    assert done.returncode == 0, done.stderr
    [device] = schemas.found("whatif", done.stdout)["devices"]
    assert sorted(folder.iterdir()) == sorted(harness.Path(of["saved"]) for of in device["replays"])
    for replay in device["replays"]:
        summary = analyze_json("report", "--all", replay["saved"])
        assert harness.device_of(summary)["reserved"]["peak_bytes"] == replay["figures"]["reserved_bytes.all.peak"]
        said = summary["replayed"]
        assert (said["capture"], said["device"], said["settings"]) == (str(path), 0, replay["settings"])
        assert said["card_bytes"] == replay["card_bytes"] == whatif.ROOMY
        assert summary["process"]["pytorch"]["allocator_settings"] == replay["settings"]
        under = replay["settings"] or "default settings"
        # The report begins with the peak.
        for text, line in ((analyze(replay["saved"]).stdout, 2), (analyze("report", "--all", replay["saved"]).stdout, 1)):
            assert f"replay       of {path} under {under} on 16.0 GiB" in text.splitlines()[line]
    # A replay of a replay is as the first one.
    again = tmp_path / "again.bin"
    done = gpumem(python, device["replays"][0]["saved"], "--conf", EXPANDABLE, "--save", again)
    assert done.returncode == 0, done.stderr
    assert f"gpumem-analyze diff {device['replays'][0]['saved']} {again}" in done.stdout
    assert Capture(again).peaks == Capture(device["replays"][1]["saved"]).peaks
    # Nothing is overwritten.
    done = gpumem(python, path, "--conf", EXPANDABLE, "--save", again)
    assert (done.returncode, done.stdout) == (1, "") and "already exists" in done.stderr


def test_names_that_are_embedded_stay(bench, tmp_path, analyze, analyze_json):
    path, named, to = bench.runs["lengths", ""][0], tmp_path / "named.bin", tmp_path / "replay.bin"
    analyze("check", path, "--symbolize", named)
    replay, saved = save(bench, named, EXPANDABLE, whatif.ROOMY, to)
    agree(replay, saved, to, analyze, analyze_json)
    symbols = [spec_reader.read(capture).order.symbols for capture in (named, to)]
    assert symbols[0] == symbols[1] != []


def test_of_several_gpus_the_others_are_as_recorded(python_env, tmp_path, analyze, analyze_json):
    python, path, folder = python_env("torch215"), tmp_path / "report.bin", tmp_path / "replays"
    env = {"GPUMEM_OUTPUT": str(path), "GPUMEM_QUIET": "1"}
    harness.simulate([python, harness.WORKLOADS / "two_devices.py"], devices=2, preload=True, env=env)
    done = gpumem(python, path, "--conf", EXPANDABLE, "--save", folder)
    assert done.returncode == 0, done.stderr
    recorded = {device["ordinal"]: device for device in analyze_json("report", "--all", path)["devices"]}
    for gpu in (0, 1):
        to = folder / f"report.gpu{gpu}.expandable_segments-True.bin"
        summary = analyze_json("report", "--all", to)
        assert summary["exact"] and summary["replayed"]["device"] == gpu
        assert f"replay       of GPU {gpu} in {path} under" in analyze("report", "--all", to).stdout
        for device in summary["devices"]:
            assert device["ordinal"] == gpu or without(device) == without(recorded[device["ordinal"]])
        [pool] = analyze_json("ledger", "--pool", "--device", gpu, to)
        assert all(segment["expandable"] for segment in pool["segments"])


def test_the_recorded_and_the_replayed_pool_side_by_side(bench, tmp_path, analyze, analyze_json):
    path, to = bench.runs["lengths", ""][0], tmp_path / "replay.bin"
    save(bench, path, EXPANDABLE, whatif.ROOMY, to)
    [row] = analyze_json("diff", path, to)["pools"]
    peaks = [harness.device_of(analyze_json("report", "--all", of))["reserved"]["peak_bytes"] for of in (path, to)]
    assert [row["reserved_peak"][name] for name in ("before_bytes", "after_bytes", "change_bytes")] == [*peaks, peaks[1] - peaks[0]]
    pools = analyze_json("ledger", "--pool", path, to)
    alone = [analyze_json("ledger", "--pool", of)[0] for of in (path, to)]
    assert [pool.pop("capture") for pool in pools] == [str(path), str(to)] and pools == alone
    text = analyze("ledger", "--pool", path, to).stdout
    assert all(analyze("ledger", "--pool", of).stdout in text for of in (path, to))
    assert "PyTorch's pool on GPU 0" in analyze("diff", path, to).stdout
    assert "PyTorch's pool on GPU" not in analyze("diff", path, path).stdout
