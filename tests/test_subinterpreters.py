"""Python frames of subinterpreters, with a shared GIL and with separate ones, in threads that allocate at once.

What breaks these tests: frames read from another interpreter's thread state, the names of an ended interpreter for
one that has its memory, a lock that two interpreters wait for, or a crash when an interpreter ends."""

import collections
import json

import harness
import pytest

ALLOC = 1
AT_ONCE, SETS = 4, 6
# Before 3.12 a thread keeps the state of its first interpreter; since, it has that of the running one, and interpreters
# can have separate GILs.
BEFORE, SINCE = ("py38", "py39", "py310", "py311"), ("py312", "py313", "py314")
KINDS = [(version, "shared") for version in BEFORE + SINCE] + [(version, "own") for version in SINCE]


@pytest.mark.parametrize("version, gil", KINDS)
def test_frames_are_those_of_the_threads_interpreter(
    version, gil, python_env, build_c, simulate, analyze_json, dump, tmp_path
):
    library = build_c("subinterpreters.c", "-shared", "-fPIC", "-ldl", "-lpthread")
    done = simulate(
        [python_env(version), harness.WORKLOADS / "subinterpreters.py", library, gil, AT_ONCE, SETS],
        preload=True,
    )
    told = json.loads(done.stdout)
    report = tmp_path / "report.bin"
    checked = analyze_json("check", report)
    assert checked["whole"] and checked["lost_events"] == checked["lost_definitions"] == 0
    names, stacks, found = {}, {0: ()}, collections.defaultdict(collections.Counter)
    for line in map(json.loads, harness.run([dump, report]).stdout.splitlines()):
        if "code" in line:
            names[line["code"]] = line["name"]
        elif "python_stack" in line:
            stacks[line["python_stack"]] = tuple(names[code] for code in line["codes"])
        elif line.get("kind") == ALLOC and line["level"] == "driver":
            found[line["bytes"]][stacks[line["python"]]] += 1
    # The threads' first interpreter is the main one, which runs no Python in them: no frames, rather
    # than others'.
    seen = {size: tuple(names) if version in SINCE else () for size, names in told["said"]}
    assert found == {size: {names: told["times"]} for size, names in seen.items()}
