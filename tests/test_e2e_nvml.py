"""NVML's figures, and the memory that contexts, modules, limits and stacks take, against the simulator's books."""

import json
import os

import harness
import pytest

RESIZE, SAMPLE, CARD, MODULE_LOAD, MODULE_UNLOAD = 17, 14, 18, 9, 10
CONTEXT, MODULE, ESTIMATED = 256, 512, 2048
MIB, GIB = 1 << 20, 1 << 30
UNKNOWN = (1 << 64) - 1
COST = 512 * MIB  # of a context


@pytest.fixture
def read(dump):
    """read(path) is every record of a capture."""
    return lambda path: [json.loads(line) for line in harness.run([dump, path]).stdout.splitlines()]


@pytest.fixture
def client(build_c):
    return build_c("implicit.c", "-ldl")


@pytest.fixture
def recorded(client, simulate, read, tmp_path):
    """recorded("context block") runs those steps of implicit.c, which compares the recorder's figure
    with the books after each; the records of the capture and the lines that it printed."""

    def run(steps, **options):
        env = {"GPUMEM_QUIET": "1", **options.pop("env", {})}
        done = simulate([client, *steps.split()], preload=True, env=env, **options)
        assert done.stderr == "", harness.described(done)
        books = [(step, *map(int, rest)) for step, *rest in map(str.split, done.stdout.splitlines()) if rest]
        return read(tmp_path / "report.bin"), books

    return run


def of_kind(records, kind, device=0):
    return [r for r in records if r.get("kind") == kind and r["device"] == device]


def notes(records):
    return [r["note"] for r in records if "note" in r]


def held(records, flag):
    """The changes of the reservations of a kind: (pointer, before, after)."""
    events = [e for e in of_kind(records, RESIZE) if e["flags"] & flag]
    return [(e["ptr"], e["aux"], e["bytes"]) for e in events]


def total(records, flag, device=0):
    events = [e for e in of_kind(records, RESIZE, device) if e["flags"] & flag]
    return sum(e["bytes"] - e["aux"] for e in events)


# Memory that no call requests


def test_contexts_cost_what_the_books_say(recorded):
    """Each context is charged at its creation, to the line that made it, and freed at its end."""
    records, _ = recorded("context own block destroy")
    (primary, *first), (own, *second), (ended, *last) = held(records, CONTEXT)
    assert (first, second) == ([0, COST], [0, COST])
    assert (ended, *last) == (own, COST, 0)
    assert primary != own
    births = [e for e in of_kind(records, RESIZE) if e["aux"] == 0]
    assert all(e["native"] != 0 and not e["flags"] & ESTIMATED for e in births)


STEPS = {
    "modules": "context module function launch variable module unload",
    "a library, by function": "context library kernel launch launch-kernel unload-library",
    "a library, by launch": "context library launch-kernel launch-kernel unload-library",
    "a heap": "context heap heap less-heap",
    "stacks": "context module function launch stack launch launch less-stack launch",
    "stacks at the first launch": "context module stack function launch unload",
    "an end with all of it": "context own library kernel module function heap stack launch destroy",
    "a library in the next context": "context own library kernel destroy launch-kernel",
    "a library after a reset": "context library launch-kernel reset block launch-kernel",
    "blocks in between": "context block module free library block launch-kernel free unload",
    "streams": "context streams module streams destroy-streams function streams no-stream launch streams streams unload",
    "streams of a context of one's own": "context own streams module streams destroy",
    "streams and a reset": "context streams reset block streams",
    "what fails": "context module unload unload-again kernel-again",
}


# Where code is loaded in a context that nothing was got in, the sum is exact, and whose it is an estimate.
ESTIMATES = {"a library in the next context", "a library after a reset"}


def is_within(part, whole):
    """Whether `part` is `whole` with some items left out."""
    rest = iter(whole)
    return all(item in rest for item in part)


@pytest.mark.parametrize("loading", ("LAZY", "EAGER"))
@pytest.mark.parametrize("name", STEPS)
def test_what_no_call_asks_for(name, loading, recorded):
    """After each step contexts and modules hold what the books say, each of the two by itself."""
    records, books = recorded(STEPS[name], env={"CUDA_MODULE_LOADING": loading})
    contexts, modules, states = 0, 0, [(0, 0)]
    for event in of_kind(records, RESIZE):
        assert not event["flags"] & ESTIMATED or name in ESTIMATES
        contexts += (event["bytes"] - event["aux"]) if event["flags"] & CONTEXT else 0
        modules += (event["bytes"] - event["aux"]) if event["flags"] & MODULE else 0
        states.append((contexts, modules))
    steps = [(context, module) for _, context, module, _ in books]
    steps = [step for i, step in enumerate(steps) if i == 0 or step != steps[i - 1]]
    assert steps[-1] == states[-1]
    assert is_within(steps, states), (steps, states)
    last = of_kind(records, SAMPLE)[-1]
    assert last["bytes"] == last["ptr"] == books[-1][-1]


def test_modules_are_named(recorded):
    """A module's end names what its beginning did; the image is an address, the caller our program."""
    records, _ = recorded("context module library unload unload-library")
    loads, unloads = of_kind(records, MODULE_LOAD), of_kind(records, MODULE_UNLOAD)
    assert [e["ptr"] for e in loads] == [e["ptr"] for e in unloads]
    assert all(e["bytes"] and e["aux"] and e["native"] for e in loads)
    assert {ptr for ptr, _, _ in held(records, MODULE)} <= {e["ptr"] for e in loads}


def test_a_reset_takes_the_primary_context(recorded):
    records, _ = recorded("context block reset")
    assert total(records, CONTEXT) == 0
    assert of_kind(records, SAMPLE)[-1]["bytes"] == 0


def test_a_module_that_wakes_a_context_keeps_its_own(recorded):
    """A reset context becomes active again with the call that loads a module. One reading measures both; the
    context's share is its size at its creation, and both shares are marked as estimates."""
    records, books = recorded("context reset module unload", env={"CUDA_MODULE_LOADING": "EAGER"})
    woken = next(i for i, (step, *_) in enumerate(books) if step == "module")
    _, context, module, _ = books[woken]
    assert context == COST and module > 0
    (_, *loaded), (_, *unloaded) = held(records, MODULE)
    assert (loaded, unloaded) == ([0, module], [module, 0])
    assert held(records, CONTEXT)[-1][2] == books[-1][1] == COST
    shares = [e for e in of_kind(records, RESIZE) if e["bytes"] == module]
    assert shares and all(e["flags"] & ESTIMATED for e in shares)


# NVML's figures


def test_the_last_reading_is_the_books(recorded):
    """At the end of the process, with other processes on the card and what the driver keeps."""
    env = {"GPUMEM_SIM_OTHER_BYTES": "3GiB", "GPUMEM_SIM_RESERVED_BYTES": "600MiB"}
    records, books = recorded("context block", env=env)
    sample, card = of_kind(records, SAMPLE)[-1], of_kind(records, CARD)[-1]
    assert sample["bytes"] == sample["ptr"] == books[-1][-1] == COST + 6 * MIB
    assert (sample["aux"], sample["flags"]) == (3 * GIB, 0)
    assert card["bytes"] == COST + 6 * MIB + 3 * GIB + 600 * MIB
    assert (card["aux"], notes(records)) == (600 * MIB, [])


def test_readings_come_by_themselves(recorded):
    """The end is read without any other reading; unchanged figures are not repeated."""
    env = {"GPUMEM_SAMPLE_MS": "0", "NOT_READ": "1", "TELL_ONLY": "1"}
    records, _ = recorded("context block", env=env)
    assert COST + 6 * MIB in [s["bytes"] for s in of_kind(records, SAMPLE)]
    records, _ = recorded("context wait wait", env={"GPUMEM_SAMPLE_MS": "5", "GPUMEM_OUTPUT": "report.bin"})
    assert len(of_kind(records, SAMPLE)) <= 3


def test_a_card_that_is_nearly_full_is_told_of_if_that_is_wanted(client, simulate):
    """518 MiB of 580 are 89 %."""
    line = "gpumem: GPU 0 is 89 % full: 0.51 of 0.57 GiB are in use, 0.51 GiB of it by this process\n"
    for value, said in (("89%", line), ("90%", ""), ("off", ""), (None, "")):
        env = {"GPUMEM_QUIET": "1", **({"GPUMEM_WARN_AT": value} if value else {})}
        done = simulate([client, "context", "block"], memory="580MiB", preload=True, env=env)
        assert done.stderr == said, value


@pytest.mark.parametrize("visible", ("1", "uuid", "1,0"))
def test_devices_are_not_known_by_their_numbers(visible, recorded, client, simulate):
    """Device 0 of the program is NVML's second: the other processes' memory there identifies it."""
    if visible == "uuid":
        visible = "GPU-67707567-6d65-406d-8000-000000000000"
        listed = simulate(["python3", "-c", UUIDS], devices=2).stdout.split()
        visible = listed[1]
    env = {"CUDA_VISIBLE_DEVICES": visible, "GPUMEM_SIM_OTHER_BYTES": "1=2GiB"}
    records, _ = recorded("context block", devices=2, env=env)
    assert [s["aux"] for s in of_kind(records, SAMPLE)][-1] == 2 * GIB
    assert total(records, CONTEXT) == COST


UUIDS = """
from ctypes import *
nvml = CDLL("libnvidia-ml.so.1")
nvml.nvmlInit_v2()
for index in range(2):
    device, text = c_void_p(), create_string_buffer(96)
    nvml.nvmlDeviceGetHandleByIndex_v2(index, byref(device))
    nvml.nvmlDeviceGetUUID(device, text, 96)
    print(text.value.decode())
"""


# Where NVML does not know this process


@pytest.fixture
def behind(build_c, recorded):
    """behind("empty", steps) runs the steps with tests/workloads/other_nvml.c before the simulator's."""

    def run(what, steps, **env):
        other = build_c("other_nvml.c", "-shared", "-fPIC", "-ldl", "-Wl,-soname,libnvidia-ml.so.1")
        # Loaded by path, so that with-simulator has made it before.
        harness.simulate(["true"])
        env.update(
            LD_PRELOAD=f"{harness.LIBRARY}:{other}",
            GPUMEM_TEST_LIST=what,
            GPUMEM_TEST_NVML=str(harness.SIMULATOR / "libnvidia-ml.so.1"),
            GPUMEM_SIM_OTHER_BYTES="1GiB",
        )
        return recorded(steps, env=env)

    return run


@pytest.mark.parametrize("what", ("number", "taken"))
def test_a_process_of_another_number_space(what, behind):
    """In a container NVML may list this process by its number outside: it is the one that appeared with the first
    context, even if its own number belongs to another process there."""
    records, books = behind(what, "context own block")
    sample = of_kind(records, SAMPLE)[-1]
    assert sample["bytes"] == sample["ptr"] == books[-1][-1]
    assert sample["aux"] == GIB + (7 * MIB if what == "taken" else 0)
    assert total(records, CONTEXT) == 2 * COST
    assert notes(records) == []


@pytest.mark.parametrize("what", ("empty", "figure", "two"))
def test_a_process_that_nvml_does_not_tell(what, behind):
    """Its figure is unknown, not a number; what contexts take is estimated by the card's."""
    records, books = behind(what, "context own block destroy")
    sample = of_kind(records, SAMPLE)[-1]
    assert sample["bytes"] == UNKNOWN
    assert of_kind(records, CARD)[-1]["bytes"] == books[-1][-1] + GIB
    events = of_kind(records, RESIZE)
    assert [e["bytes"] for e in events] == [COST, COST, 0]
    assert all(e["flags"] & ESTIMATED for e in events if e["bytes"])
    assert [note for note in notes(records) if note.startswith("NVML does not report")]


def test_an_nvml_that_does_not_start(behind):
    """One line reports it, and everything else is unchanged."""
    records, _ = behind("broken", "context block wait", TELL_ONLY="1")
    assert of_kind(records, SAMPLE) == of_kind(records, RESIZE) == []
    (note,) = notes(records)
    assert note.startswith("NVML cannot be used (") and note.endswith("is not measured")


def test_no_nvml_at_all(client, read, tmp_path):
    """A machine whose driver comes without NVML."""
    harness.simulate(["true"])
    folder = tmp_path / "libraries"
    folder.mkdir()
    os.symlink(harness.BUILT / "libsimcuda.so", folder / "libcuda.so.1")
    env = harness.preloaded({"LD_LIBRARY_PATH": str(folder), "GPUMEM_QUIET": "1", "TELL_ONLY": "1"})
    done = harness.run([client, "context", "block", "wait"], env=env, cwd=tmp_path)
    assert done.stderr == ""
    records = read(tmp_path / "report.bin")
    (note,) = notes(records)
    assert note.startswith("NVML cannot be used (")
    assert [c["live"] for c in records if c.get("counters") == "physical"] == [6 * MIB]


def test_training_leaves_nothing_unexplained(trained, read):
    """PyTorch 2.15: whenever the second ledger stood still, NVML's figure was it, to the byte."""
    records = read(trained("torch215").report)
    samples = [s for s in of_kind(records, SAMPLE) if not s["flags"] & ESTIMATED]
    assert len(samples) > 1
    assert [s["bytes"] - s["ptr"] for s in samples] == [0] * len(samples)
    assert samples[-1]["bytes"] > COST


# Parts of cards, and cards that processes share


@pytest.mark.parametrize("instance", (0, 1))
def test_an_instance_of_a_card(instance, recorded, simulate, client, tmp_path):
    """What is measured is the MIG instance that CUDA sees, not the card."""
    env = {"GPUMEM_SIM_MIG": "0=2"}
    listed = simulate(["python3", "-c", INSTANCES], env=env).stdout.split()
    env["CUDA_VISIBLE_DEVICES"] = listed[instance]
    records, books = recorded("context own module heap destroy", env=env)
    sample, card = of_kind(records, SAMPLE)[-1], of_kind(records, CARD)[-1]
    assert sample["bytes"] == sample["ptr"] == card["bytes"] == books[-1][-1]
    assert card["ptr"] == 8 * GIB
    assert notes(records) == []


INSTANCES = """
from ctypes import *
nvml = CDLL("libnvidia-ml.so.1")
nvml.nvmlInit_v2()
card = c_void_p()
nvml.nvmlDeviceGetHandleByIndex_v2(0, byref(card))
for index in range(2):
    device, text = c_void_p(), create_string_buffer(96)
    nvml.nvmlDeviceGetMigDeviceHandleByIndex(card, index, byref(device))
    nvml.nvmlDeviceGetUUID(device, text, 96)
    print(text.value.decode())
"""


@pytest.mark.parametrize("pids", ("own", "host"))
def test_two_processes_on_a_card(pids, client, simulate, read, tmp_path):
    """Each sees the memory of the other, and is charged for none of it, also where NVML lists both by process
    numbers that they do not know."""
    both = (
        f"{client} context block meet part | {{ while read step rest; do "
        f"[ $step != block ] || {{ {client} context module show; touch gone; }} & done; wait; }}"
    )
    env = {
        "GPUMEM_OUTPUT": "%p.bin", "GPUMEM_QUIET": "1",
        "GPUMEM_SIM_NVML_PIDS": pids,
    }
    simulate(["bash", "-c", both], preload=True, env=env)
    ours = {}
    for path in tmp_path.glob("*.bin"):
        records = read(path)
        samples = of_kind(records, SAMPLE)
        assert samples[-1]["bytes"] == samples[-1]["ptr"]
        assert not [e for e in of_kind(records, RESIZE) if e["flags"] & ESTIMATED]
        ours[samples[-1]["ptr"]] = {s["aux"] for s in samples}
    assert ours.keys() == {COST + 6 * MIB, COST + 2 * MIB}
    assert COST + 2 * MIB in ours[COST + 6 * MIB]
    assert ours[COST + 2 * MIB] == {COST + 6 * MIB}
