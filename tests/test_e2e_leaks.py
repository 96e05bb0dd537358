"""Memory that real trainings (tests/data/captures) keep from step to step, against the capture's own events added up by another program.

What breaks these tests: a block's step taken from another event, freed blocks that are still counted, a slope over
the wrong steps, a threshold that treats noise as growth or growth as noise."""

from collections import defaultdict

import harness
import pytest
from captures import capture
from oracle import ALLOC, FREE, STEP, TENSOR, Oracle

STEPS = 30
LEAST = 3
LEAK = 12288 * 4


def survivors(oracle):
    """{function: {step: bytes}} alive at the end of the last step, by the step that allocated them, and
    {function: [bytes at the end of each step]}."""
    steps, live, ends = 0, {}, defaultdict(list)
    last = max(event.seq for event in oracle.events if event.kind == STEP)
    for event in oracle.of_level(TENSOR):
        if event.seq > last:
            break
        if event.kind == ALLOC:
            live[event.ptr] = (oracle.function(event.py), steps + 1, event.bytes)
        elif event.kind == FREE:
            del live[event.ptr]
        elif event.kind == STEP:
            steps += 1
            now = defaultdict(int)
            for function, _, size in live.values():
                now[function] += size
            for function in set(ends) | set(now):
                ends[function] += [0] * (steps - 1 - len(ends[function])) + [now[function]]
    births = defaultdict(lambda: defaultdict(int))
    for function, step, size in live.values():
        births[function][step] += size
    return births, ends, steps


def by_function(leaks):
    rows = defaultdict(list)
    for row in leaks["rows"]:
        rows[(row["function"] or "").rsplit(".", 1)[-1] or None].append(row)
    return rows


@pytest.mark.parametrize("name", ["leak", "steady"])
def test_lines_keep_what_the_events_say(name, analyze_json):
    """Each function's bytes, ages and slope, whatever its class."""
    report = capture(name)
    births, ends, steps = survivors(Oracle(report))
    leaks = analyze_json("leaks", report)
    rows = by_function(leaks)
    assert leaks["steps"] == steps == STEPS
    assert leaks["bytes"] == sum(sum(of.values()) for of in births.values())
    assert set(rows) == set(births)
    for function, of in births.items():
        mine = rows[function]
        assert sum(row["bytes"] for row in mine) == sum(of.values()), function
        old = sum(size for step, size in of.items() if steps + 1 - step >= LEAST)
        assert sum(row["survived_bytes"] for row in mine) == old, function
        assert min(row["oldest_step"] for row in mine) == min(of), function
        assert max(row["newest_step"] for row in mine) == max(of), function
        if len(mine) == 1:
            count, series = steps, ends[function]
            middle = (count + 1) / 2
            above = sum((step - middle) * size for step, size in enumerate(series, 1))
            slope = above / sum((step - middle) ** 2 for step in range(1, count + 1))
            assert abs(mine[0]["bytes_per_step"] - slope) <= 1, function


def test_a_list_that_grows_is_the_only_one_that_does(analyze_json):
    leaks = analyze_json("leaks", capture("leak"))
    growing = [row for row in leaks["rows"] if row["class"] == "growing"]
    assert [row["function"] for row in growing] == ["leak"]
    (row,) = growing
    assert row["bytes"] == STEPS * LEAK and row["blocks"] == STEPS
    assert row["bytes_per_step"] == LEAK
    assert row["line"] == line_of("KEPT.append")
    assert leaks["rows"][0] == row, "it comes first"


def test_nothing_grows_in_a_steady_training(analyze, analyze_json):
    leaks = analyze_json("leaks", capture("steady"))
    classes = defaultdict(set)
    for row in leaks["rows"]:
        classes[row["function"]].add(row["class"])
    assert "growing" not in set().union(*classes.values())
    assert classes["ring"] == classes["cache"] == {"cache"}
    assert classes["build"] == {"warm-up"}
    assert "No line grows." in analyze("leaks", capture("steady")).stdout


def test_the_deliberate_leak_of_the_training_is_found(analyze_json):
    """tests/workloads/train.py keeps one plane of each image; it frees all before it ends."""
    report = capture("trained/leaves")
    rows = analyze_json("leaks", report)["rows"]
    growing = [row for row in rows if row["class"] == "growing"]
    assert [(row["function"], row["bytes_per_step"]) for row in growing] == [("train", 4 * 32 * 32 * 4)]
    assert growing[0]["line"] == line_of("HISTORY.append", "train.py")
    # The tensor of the last step is kept after that step's end.
    assert growing[0]["blocks"] == 11
    assert analyze_json("leaks", "--at", "end", report)["rows"] == []


def test_a_server_without_steps_grows_by_its_responses(analyze, analyze_json):
    """Rounds of its loop count; it frees all responses when it ends."""
    report, response = capture("serves"), 256 * 512 * 4
    leaks = analyze_json("leaks", report)
    assert (leaks["steps"], leaks["round"]["line"]) == (19, line_of("request = torch", "serves.py"))
    growing = [row for row in leaks["rows"] if row["class"] == "growing"]
    (row,) = growing
    assert (row["line"], row["bytes"], row["blocks"]) == (line_of("softmax", "serves.py"), 19 * response, 19)
    assert {row[f"bytes_per_step{end}"] for end in ("", "_least", "_most")} == {response}
    (hint,) = [of for of in analyze_json("report", "--hints", report) if of["kind"] == "growing"]
    assert hint["bytes"] == 18 * response and hint["lines"][0]["line"] == row["line"]
    place = f"per round (rounds begin at serves.py:{leaks['round']['line']})."
    assert place in analyze("leaks", report).stdout


def test_evaluations_that_drop_their_outputs_do_not_grow(analyze, analyze_json):
    report = capture("alternates")
    leaks = analyze_json("leaks", report)
    assert leaks["steps"] == 19 and "growing" not in {row["class"] for row in leaks["rows"]}
    assert not {of["kind"] for of in analyze_json("report", "--hints", report)} & {"growing", "kept_graphs"}
    assert "No line grows over the rounds (rounds begin at alternates.py" in analyze("leaks", report).stdout


def line_of(text, script="leaking.py"):
    source = (harness.WORKLOADS / script).read_text().splitlines()
    (line,) = [number for number, line in enumerate(source, 1) if text in line]
    return line
