"""Many stacks, and events of many threads at once: no event is lost, mixed up or out of order.

What breaks these tests: two stacks that share an id, a table that loses stacks as it grows, a definition lost while
the ring is full, an event that is recorded twice or not at all, an order of events that is not the order in a
thread, or two live blocks at one address."""

import collections
import json

import harness
import pytest

# The values of EventKind.
ALLOC, FREE = 1, 2
# The second of each belongs to the slow lane.
STACKS = [20_000, pytest.param(120_000, marks=pytest.mark.slow)]
THREADS, ROUNDS = 8, [1000, pytest.param(4000, marks=pytest.mark.slow)]


def events_of(dump, report):
    """The tensors' events in their order."""
    lines = map(json.loads, harness.run([dump, report]).stdout.splitlines())
    return [line for line in lines if line.get("level") == "tensor" and line.get("kind") in (ALLOC, FREE)]


@pytest.fixture(scope="module", params=STACKS)
def many_stacks(request, python_env, tmp_path_factory):
    """A capture of a program with so many different stacks, their number, its code, and what each line has allocated."""
    folder = tmp_path_factory.mktemp("many")
    code = folder / "generated.py"
    done = harness.simulate(
        [python_env("torch215"), harness.WORKLOADS / "many_stacks.py", str(request.param), code],
        memory="64GiB", preload=True, cwd=folder,
    )
    promised = {line: size for line, size in json.loads(done.stdout)}
    return folder / "report.bin", request.param, code, promised


def test_each_of_very_many_stacks_has_an_id_of_its_own(many_stacks, dump, analyze_json):
    report, count, *_ = many_stacks
    checked = analyze_json("check", report)
    assert checked["whole"] and checked["lost_events"] == checked["lost_definitions"] == 0
    events = events_of(dump, report)
    ids = {event["python"] for event in events if event["kind"] == ALLOC}
    assert len(ids) == count and 0 not in ids
    assert all(event["native"] != 0 for event in events if event["kind"] == ALLOC)


def test_lines_of_very_many_stacks_own_their_bytes(many_stacks, analyze_json):
    report, count, code, promised = many_stacks
    rows = analyze_json("lines", "--at", "peak", report)
    assert {row["file"] for row in rows} == {str(code)}
    assert {row["line"]: row["bytes"] for row in rows} == promised
    blocks = [row["blocks"] for row in rows]
    assert blocks == [count // 100] * 100


@pytest.fixture(scope="module", params=ROUNDS)
def many_threads(request, python_env, tmp_path_factory):
    """A capture of threads that allocate at once, and what the threads say of themselves."""
    folder = tmp_path_factory.mktemp("threads")
    done = harness.simulate(
        [python_env("torch215"), harness.WORKLOADS / "threads_alloc.py", str(THREADS), str(request.param)],
        devices=THREADS // 2, preload=True, cwd=folder,
    )
    return folder / "report.bin", json.loads(done.stdout)


def test_each_threads_events_are_all_there_in_its_order(many_threads, dump, analyze_json):
    report, said = many_threads
    checked = analyze_json("check", report)
    assert checked["whole"] and checked["counters_agree"] is True
    assert checked["lost_events"] == checked["lost_definitions"] == 0
    allocated = collections.defaultdict(list)
    for event in events_of(dump, report):
        if event["kind"] == ALLOC:
            allocated[event["thread"]].append((event["device"], event["bytes"]))
    assert len(said["threads"]) == THREADS
    for thread in said["threads"]:
        found = allocated.pop(thread["id"])
        assert found == [(thread["device"], size) for size in thread["sizes"]], thread["id"]
    assert not allocated, "tensors of no thread"


def test_no_block_lives_twice_when_threads_allocate_at_once(many_threads, dump):
    report, said = many_threads
    live, most = collections.Counter(), collections.Counter()
    blocks = {}
    for event in events_of(dump, report):
        place = event["device"], event["ptr"]
        if event["kind"] == ALLOC:
            assert place not in blocks
            blocks[place] = event["bytes"]
            live[event["device"]] += event["bytes"]
            most[event["device"]] = max(most[event["device"]], live[event["device"]])
        else:
            assert blocks.pop(place) == event["bytes"]
            live[event["device"]] -= event["bytes"]
    assert [most[device] for device in range(THREADS // 2)] == [most for _, most in said["devices"]]
