"""Random CUDA programs on the simulator: gpumem's counters equal the simulator's books after every call, the
programs are not affected, and planted faults are found. tests/differential makes the programs from seeds; each line
of a failure shows how to run its seed again."""

import json
from pathlib import Path

import harness
import pytest
from test_interposer import read  # noqa: F401  (fixtures are found by name)

DIFFERENTIAL = harness.BUILT / "differential"
SMALL_CARDS = "0=1GiB,1=256MiB,2=512MiB"
ENVIRONMENT = {
    "GPUMEM_STACKS": "off",
    "GPUMEM_QUIET": "1",
    "GPUMEM_OUTPUT": "report.%p.bin",
    "GPUMEM_SIM_CONTEXT_BYTES": "16MiB",
}
# What can be measured by difference whatever the cards hold.
MEASURABLE = "context,device,host,register,pool,vmm,array,module,graph,old,green,ipc,external,multicast"
# Of the planted faults, what each must be noticed by: a hook of each family.
DROPPED = [
    "cuMemAlloc_v2", "cuMemFree_v2", "cuMemAllocPitch_v2", "cuMemAllocManaged", "cuMemHostAlloc",
    "cuMemFreeHost", "cuMemHostRegister_v2", "cuMemAllocFromPoolAsync_ptsz", "cuMemFreeAsync",
    "cuMemCreate", "cuMemRelease", "cuMemUnmap", "cuArray3DCreate_v2", "cuMipmappedArrayDestroy",
    "cuCtxDestroy_v2", "cuDevicePrimaryCtxReset_v2", "cuCtxDetach", "cuMemAllocHost",
    "cuMulticastBindAddr", "cuGreenCtxDestroy", "cuGraphAddNode", "cuGraphAddNode_v2", "cuGraphAddNode_v3",
    "cuGraphInstantiate", "cuGraphInstantiateWithParams", "cuGraphInstantiateWithParams_ptsz",
    "cuGraphLaunch_ptsz",
]
# What only the second ledger shows, until the card is read.
DROPPED_BELOW = ["cuMemPoolDestroy", "cuDeviceGraphMemTrim", "cuGraphLaunch"]
# Calls that leave evidence. Without it a reading finds the bytes, but not their owner: see test_e2e_nvml.
EVIDENCE = [
    "cuModuleLoadData", "cuModuleUnload", "cuModuleGetFunction", "cuModuleGetGlobal_v2", "cuLibraryLoadData",
    "cuLibraryGetKernel", "cuLibraryGetModule", "cuLibraryUnload", "cuKernelGetFunction", "cuCtxCreate_v4",
    "cuCtxSetLimit",
]
# Where a runtime also holds the primary contexts, a green context is almost never the last holder.
FEWER_FAMILIES = {"cuGreenCtxDestroy": ["--families", "green,device,pool,context"]}
# The functions of the family `peer` that open memory of another process, and those that close it.
OPENED = [
    "cuIpcOpenMemHandle", "cuIpcOpenMemHandle_v2", "cuMemImportFromShareableHandle",
    "cuMemPoolImportFromShareableHandle", "cuMemPoolImportPointer", "cuImportExternalMemory",
    "cuExternalMemoryGetMappedBuffer", "cuExternalMemoryGetMappedMipmappedArray",
]
PEER = ["--families", "context,device,host,graph,peer"]
# Kinds of events.
ALIAS, ALIAS_END = 15, 16


def sequences(few, many):
    """A few sequences in the default lane, as many as find what is rare in the slow one."""
    return pytest.mark.parametrize("count", [few, pytest.param(many, marks=pytest.mark.slow)])


def one_of(functions):
    """One of them in the default lane, the others in the slow one."""
    first, *others = functions
    return pytest.mark.parametrize("function", [first, *(pytest.param(other, marks=pytest.mark.slow) for other in others)])


def run(
    folder: Path, *options, preload=True, more="", check=True, timeout=580, memory=SMALL_CARDS, **environment
):
    """Runs the random programs in `folder`; the statistics of each process, and the run itself."""
    environment = {**ENVIRONMENT, **environment}
    if preload:
        environment["LD_PRELOAD"] = str(harness.LIBRARY) + (f":{more}" if more else "")
    done = harness.simulate(
        [DIFFERENTIAL, *options],
        devices=3, memory=memory, env=environment, cwd=folder, check=check, timeout=timeout,
    )
    lines = [line.split(" ", 1) for line in done.stdout.splitlines()]
    statistics = [json.loads(rest) for word, rest in lines if word == "STATISTICS"]
    assert statistics, harness.described(done)
    return statistics, done


@sequences(1600, 10_000)
def test_counters_equal_the_books_after_every_call(tmp_path, analyze, count):
    """In turns and at once, up to 8 threads, 3 devices, failures and want of memory included; and what was recorded
    replays to the same figures."""
    statistics, done = run(tmp_path, "--sequences", str(count), "--processes", "2")
    assert sum(s["sequences"] for s in statistics) == count, harness.described(done)
    for process in statistics:
        assert process["calls"] > 100 * process["sequences"] and process["comparisons"] > 60 * process["sequences"] > 0
        assert process["surprises"] == 0, process["first_surprises"]
        assert {"1", "2", "101", "201", "400"} <= process["failures"].keys()
        assert process["not_covered"] == [], "functions that were never called with success"
    reports = sorted(tmp_path.glob("report.*.bin"))
    assert len(reports) == 2
    for report in reports:
        analyze("check", report)


def test_the_capture_replays_to_the_counters(tmp_path, analyze, analyze_json):
    """The figures that the analyzer makes of the events are those that the counters had at the end."""
    statistics, _ = run(tmp_path, "--sequences", "400", "--seed", "500000", "--counters", "end.json")
    assert statistics[0]["sequences"] == 400
    (report,) = tmp_path.glob("report.*.bin")
    analyze("check", report)
    summary = analyze_json("report", "--all", report)
    assert summary["lost_events"] == 0
    ends = json.loads((tmp_path / "end.json").read_text())
    compared = 0
    for end in ends:
        device = harness.device_of(summary, end["device"])
        for level in ("driver", "host"):
            live, peak, allocations, frees = end[level]
            row = device[level]
            assert (row["live_bytes"], row["peak_bytes"]) == (live, peak), (end["device"], level)
            assert (row["allocations"], row["frees"]) == (allocations, frees), (end["device"], level)
            compared += peak
    assert compared > 0


def both_ledgers(folder, count, seed, *options, **environment):
    """Sequences in turns: the first ledger after every call, the second at every synchronisation."""
    statistics, done = run(
        folder, "--sequences", str(count), "--seed", str(seed), "--threads", "turns", "--processes", "2",
        "--ledger", "driver,host,physical", *options, **environment,
    )
    assert sum(s["sequences"] for s in statistics) == count, harness.described(done)


@sequences(600, 10_000)
def test_both_ledgers_equal_what_the_card_gave(tmp_path, count):
    """Small cards that run full, contexts, modules, limits and kernels' stacks included. Left out is
    managed memory, which the runtime's family has too: see the next two."""
    both_ledgers(tmp_path, count, 1_000_000, "--families", MEASURABLE)


@sequences(600, 10_000)
def test_both_ledgers_of_every_call_on_full_cards(tmp_path, count):
    """Every family, managed memory included, on small cards. Only the driver knows where managed memory resides, and
    on a full card it makes room without a record, so figures measured by difference would include that. So here
    contexts and modules take no memory, and limits stay."""
    both_ledgers(
        tmp_path, count, 20_000_000, "--without", "cuCtxSetLimit",
        GPUMEM_SIM_CONTEXT_BYTES="0", GPUMEM_SIM_MODULE_BYTES="0",
    )


@sequences(600, 10_000)
def test_both_ledgers_of_every_call_on_roomy_cards(tmp_path, count):
    """Every family, and all that is measured, on cards where nothing has to make room."""
    both_ledgers(tmp_path, count, 21_000_000, memory="0=64TiB,1=64TiB,2=64TiB")


def test_a_part_of_a_context_is_no_measure_of_a_whole_one(tmp_path):
    """Before the last of these, a green context cost nothing, memory lingered for another process and was
    gone again, and a context came to life unseen: it costs what whole contexts cost."""
    statistics, _ = run(
        tmp_path, "--sequences", "100", "--seed", "51005500", "--threads", "turns",
        "--ledger", "driver,host,physical",
        memory="0=64TiB,1=64TiB,2=64TiB", GPUMEM_SIM_MODULE_BYTES="2MiB",
    )
    assert statistics[0]["sequences"] == 100


TOLD = "device,managed,host,register,pool,vmm,array,ipc,graph,external,multicast,runtime,old"
MEASURED = "device,host,register,pool,vmm,array,graph,multicast,module,context,old"
EXPORTS = ["cuMemExportToShareableHandle", "cuMemPoolExportToShareableHandle"]
# Families of threads that really call at once, and what contexts and modules cost.
AT_ONCE = {
    "told": (TOLD, "0", "0"),
    "measured": (MEASURED, "16MiB", "2MiB"),
    "limits": (MEASURED, "0", "0"),
}


@sequences(300, 2000)
@pytest.mark.parametrize("what", AT_ONCE)
def test_the_second_ledger_of_threads_at_once(tmp_path, what, count):
    """Where threads really call at once, the ledgers agree wherever all of them wait: with creation and destruction
    of contexts, modules, limits and kernels' stacks, and pools that are destroyed while other threads allocate from
    them. Without managed memory (also in the runtime's family) and memory that is handed to others: only the driver
    knows where the one resides and how long the other stays, and figures measured by difference would include that."""
    families, context, module = AT_ONCE[what]
    exports = [] if what == "told" else ["--without", ",".join(EXPORTS)]
    statistics, _ = run(
        tmp_path, "--sequences", str(count), "--seed", "400000", "--threads", "at-once",
        "--ledger", "driver,host,physical", "--families", families, *exports,
        GPUMEM_SIM_CONTEXT_BYTES=context, GPUMEM_SIM_MODULE_BYTES=module,
    )
    assert statistics[0]["sequences"] == count


@sequences(400, 4000)
def test_modules_in_many_contexts_are_given_back(tmp_path, count):
    """One thread after the other makes modules in several contexts and unloads them elsewhere; a launch loads
    code and makes stacks larger at once; a context that is woken by a module's load keeps no module."""
    statistics, _ = run(
        tmp_path, "--sequences", str(count), "--seed", "5000", "--threads", "turns",
        "--ledger", "driver,host,physical", "--families", "module,context", GPUMEM_SIM_MODULE_BYTES="2MiB",
    )
    assert statistics[0]["sequences"] == count


@sequences(600, 6000)
def test_memory_shared_with_another_process_is_counted_once(tmp_path, count):
    """A peer on the same cards opens the program's memory and the program opens the peer's, also after it was freed
    there. Opened memory is not counted here, and at every synchronisation the second ledger equals the memory that
    the card gave this process, less what lingers for the peer alone."""
    families = "context,device,host,register,pool,vmm,array,module,graph,ipc,external,multicast,peer"
    statistics, done = run(
        tmp_path, "--sequences", str(count), "--seed", "600000", "--threads", "turns", "--processes", "2",
        "--ledger", "driver,host,physical", "--families", families, GPUMEM_SIM_DRIVER_VERSION="13050",
    )
    assert sum(s["sequences"] for s in statistics) == count, harness.described(done)
    for process in statistics:
        assert process["surprises"] == 0, process["first_surprises"]
        for function in [*OPENED, "cuIpcGetMemHandle", "cuMemPoolExportPointer"]:
            calls, failed = process["apis"][function]
            assert calls > failed, function
    assert len(list(tmp_path.glob("report.*.bin"))) == 2, "the peers are not recorded"


@sequences(150, 1000)
def test_a_peer_beside_threads_that_call_at_once(tmp_path, count):
    """Where threads share with one peer at once, the ledgers agree wherever all of them wait."""
    statistics, _ = run(
        tmp_path, "--sequences", str(count), "--seed", "700000", "--threads", "at-once",
        "--ledger", "driver,host,physical", "--families", "device,host,vmm,array,graph,peer",
        GPUMEM_SIM_CONTEXT_BYTES="0", GPUMEM_SIM_MODULE_BYTES="0",
    )
    assert statistics[0]["sequences"] == count
    assert statistics[0]["surprises"] == 0, statistics[0]["first_surprises"]


def test_without_cards_to_share_there_is_no_peer(tmp_path):
    """The family reports it instead of passing without shared memory."""
    done = harness.simulate(
        [DIFFERENTIAL, "--families", "peer", "--sequences", "1"], devices=3, memory=SMALL_CARDS,
        env={**ENVIRONMENT, "LD_PRELOAD": str(harness.LIBRARY), "GPUMEM_SIM_CARD": ""}, cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 2, harness.described(done)
    assert "needs cards that two processes share" in done.stderr


def openings(folder, read, *options):
    """How often each function of OPENED succeeded, and how often it is in the capture."""
    statistics, _ = run(
        folder, "--sequences", "500", "--seed", "800000", "--threads", "turns", *PEER, *options
    )
    (report,) = folder.glob("report.*.bin")
    capture = read(report)
    begun = {name: 0 for name in OPENED}
    open_at = {}
    for event in capture.events:
        if event["kind"] == ALIAS:
            # A closing that failed is taken back, by the name of what closes.
            name = capture.apis[event["api"]]
            begun[name] = begun.get(name, 0) + 1
            assert event["ptr"] not in open_at, event
            open_at[event["ptr"]] = event
        elif event["kind"] == ALIAS_END:
            del open_at[event["ptr"]]
    assert not open_at, "everything was closed"
    called = {name: calls - failed for name, (calls, failed) in statistics[0]["apis"].items()}
    return {name: called.get(name, 0) for name in OPENED}, begun


def test_every_opening_is_in_the_capture(tmp_path, read):
    """As an alias, from its first opening to its last closing, or to the end of its context."""
    called, begun = openings(tmp_path, read)
    for name in OPENED:
        if name.startswith(("cuIpc", "cuMemImport")):
            # What is opened once more is the same alias.
            assert called[name] > begun[name] > called[name] / 4, name
        else:
            assert called[name] == begun[name] > 5, name


@one_of(OPENED)
def test_a_dropped_opening_is_found(tmp_path, read, function):
    """Aliases are in no counter, but in the capture; and of what is opened past the hook, they are not."""
    called, begun = openings(tmp_path, read, "--drop", function)
    assert called[function] > begun[function] == 0


@sequences(300, 1500)
def test_programs_notice_nothing(tmp_path, count):
    """The same sequences with and without the library: every result and every output parameter."""
    options = ["--alone", "--threads", "turns", "--sequences", str(count), "--seed", "300000"]
    transcripts = []
    for name, preload in [("with", True), ("without", False)]:
        path = tmp_path / name
        statistics, _ = run(tmp_path, *options, "--transcript", path, preload=preload)
        assert statistics[0]["sequences"] == count
        transcripts.append(path.read_bytes().splitlines())
    ours, theirs = transcripts
    assert len(theirs) > 66 * count
    for number, (line, expected) in enumerate(zip(ours, theirs), 1):
        assert line == expected, f"call {number} of the transcripts"
    assert len(ours) == len(theirs)
    assert list(tmp_path.glob("report.*.bin")), "nothing was recorded with the library"


@one_of(DROPPED)
def test_a_dropped_hook_is_found(tmp_path, function):
    """One function is called by its address in the driver's file, past the hook."""
    options = ["--sequences", "2000", "--threads", "turns", "--drop", function]
    _, done = run(tmp_path, *options, *FEWER_FAMILIES.get(function, []), check=False)
    assert done.returncode == 1, harness.described(done)
    assert "DIFFERENCE seed " in done.stdout and "again, alone: differential --seed" in done.stdout


@one_of(DROPPED_BELOW)
def test_a_dropped_hook_below_the_pointers_is_found(tmp_path, function):
    """The same, and the second ledger alone is looked at, where contexts and modules cost nothing."""
    _, done = run(
        tmp_path, "--sequences", "5000", "--threads", "turns", "--seed", "5", "--drop", function,
        "--ledger", "pages", "--families", MEASURABLE, "--without", "cuCtxSetLimit", check=False,
        GPUMEM_SIM_CONTEXT_BYTES="0", GPUMEM_SIM_MODULE_BYTES="0",
    )
    assert done.returncode == 1, harness.described(done)
    assert "Pages level" in done.stdout, harness.described(done)


@pytest.mark.parametrize("drop", (False, True))
def test_what_leaves_evidence_is_hooked(tmp_path, read, drop):
    """The capture counts each call, except those that bypass the hook."""
    dropped = [option for function in EVIDENCE for option in ("--drop", function)] if drop else []
    statistics, _ = run(
        tmp_path, "--sequences", "1000", "--seed", "900000", "--threads", "turns",
        "--families", "module,context,device", *dropped, check=False,
    )
    (report,) = tmp_path.glob("report.*.bin")
    facts = read(report).facts
    for function in EVIDENCE:
        calls, _ = statistics[0]["apis"][function]
        assert calls > 0
        assert int(facts.get(f"calls.{function}", 0)) == (0 if drop else calls), function


def test_a_double_count_is_found(tmp_path, build_c):
    """A runtime hands out parts of a block that the driver gave: they are counted beside it."""
    chunks = build_c("differential_chunks.c", "-shared", "-fPIC", "-ldl")
    options = ["--sequences", "500", "--threads", "turns", "--families", "runtime,context"]
    _, done = run(tmp_path, *options, more=chunks, check=False)
    assert done.returncode == 1, harness.described(done)
    assert "after cudaMalloc = 0" in done.stdout, harness.described(done)


def test_the_seed_that_is_told_finds_it_again(tmp_path):
    """What a failure prints is enough to have it again."""
    options = ["--threads", "turns", "--drop", "cuMemFree_v2"]
    _, first = run(tmp_path, *options, "--sequences", "500", "--seed", "7000", check=False)
    again = next(line for line in first.stdout.splitlines() if line.startswith("again, alone: "))
    _, second = run(tmp_path, *again.split()[3:], check=False)

    def difference(done):
        line = next(line for line in done.stdout.splitlines() if line.startswith("DIFFERENCE "))
        seed, _, rest = line.split(", ", 2)
        return seed, rest.split(", thread")[0]

    assert difference(first) == difference(second)
