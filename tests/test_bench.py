"""The parts of scripts/bench: the arithmetic of its tables, and the number of stacks that it generates.

What breaks these tests: a ratio of medians instead of a median of ratios, a part that is charged twice, a benchmark
that fails without memray, generated code whose stacks repeat."""

import json
import subprocess
import sys

import harness
import pytest

sys.path.insert(0, str(harness.ROOT / "scripts" / "lib" / "bench"))

import heap  # noqa: E402  (lives in scripts/lib/bench)
import parts  # noqa: E402
import servers  # noqa: E402
import steps  # noqa: E402
import threads  # noqa: E402

STACKS = 20_000


@pytest.fixture(scope="module")
def probe():
    """The library that the benchmark loads."""
    return harness.EXAMPLES / "libbench_probe.so"


def test_differences_and_ratios_are_those_of_rounds():
    mine, base = [11, 24, 99], [10, 20, 30]
    assert servers.added(mine, base) == 4
    assert servers.ratio([20, 20, 90], base) == 2


def test_what_a_step_takes_more_is_the_median_of_rounds_and_of_each_start():
    assert steps.added([[1.0, 1.1, 9.0], [1.3, 1.2, 1.4]]) == "+25.0 % (+10.0 to +30.0)"


def test_turns_begin_with_another_one_each_and_the_first_round_is_left_out():
    asked = []

    def ask(server):
        asked.append(server)
        return len(asked)

    answers = servers.take_turns("letters", 2, ["a", "b", "c"], ask)
    assert "".join(asked) == "abc" "bca" "cab"
    assert answers == {"a": [6, 8], "b": [4, 9], "c": [5, 7]}


def test_parts_add_up():
    answer = {
        "clock": 20, "walk": 100, "unwind": 90, "mixed": 260, "python": 150, "native": 100, "write": 60,
        "alone": 25, "whole": 0,
    }
    slower = {name: 3 * value for name, value in answer.items()}
    runs = [[{**answer, "whole": whole}, {**slower, "whole": 9000}] for whole in (325, 475, 625)]
    found = parts.column(*runs)
    assert {name: taken for name, (taken, _) in found.items()} == {
        "look at the Python frames": 100,
        "its number": 50,
        "native unwinding": 90,
        "its hash and look-up, modules": 10,
        "both stacks with ids": 260,
        "clock, of one event": 20,
        "ring and counters, of one event": 60,
        "live map and hook, of an allocation and its release": 300 - 2 * 20 - 2 * 60,
        "**whole of an allocation and its release, off**": 300,
        "**the same, python**": 450,
        "**the same, mixed**": 600,
    }
    assert parts.figure(found["both stacks with ids"]) == "260 (43 %)"


def test_what_threads_add_is_the_median_of_rounds_and_beside_one_threads():
    one, many = [[1000, 1200], [900, 1200], [1100, 1200]], [[3000, 3300], [2000, 2900], [4000, 4100]]
    answers = {(number, devices): many if number == 8 else one for number in (1, 2, 4, 8) for devices in (1, 8)}
    table = threads.of_tensors(answers)
    assert table[2] == "| 1 | 1.00 | 0.20 | 1.00 | 1.00 | 0.20 | 1.00 |"
    assert table[-1] == "| 8 | 3.00 | 0.30 | 1.50 | 3.00 | 0.30 | 1.50 |"


def test_without_memray_it_says_so(tmp_path):
    said = heap.measure("python", None, 3, 10, tmp_path)
    assert len(said) == 1 and "could not be installed" in said[0]


@pytest.fixture(scope="module")
def served(probe, python_env, tmp_path_factory):
    """The memory figures of the benchmark's process under many stacks, with the library and without; and the
    capture."""
    folder = tmp_path_factory.mktemp("bench")
    answers = {}
    for name, preload in (("without", False), ("with", True)):
        command = [
            python_env("torch215"), harness.WORKLOADS / "bench_alloc.py", "off", probe,
            folder / f"{name}-probe.bin",
        ]
        environment = {"GPUMEM_OUTPUT": str(folder / "report.bin")}
        done = subprocess.run(
            harness.simulator_command(command), cwd=folder, text=True, stdout=subprocess.PIPE, check=True,
            input=f"depth 3\nchurn 0 {STACKS}\nmemory\n", timeout=240,
            env=harness.clean_environment(harness.preloaded(environment) if preload else None),
        )
        answers[name] = [json.loads(line) for line in done.stdout.splitlines()]
    return answers, folder / "report.bin"


@pytest.mark.slow
def test_the_benchmarks_stacks_are_as_many_as_it_says(served, dump, analyze_json):
    answers, report = served
    assert answers["with"][0][0] == answers["without"][0][0] == 13
    checked = analyze_json("check", report)
    assert checked["whole"] and checked["counters_agree"] is True
    assert checked["lost_events"] == checked["lost_definitions"] == 0
    lines = map(json.loads, harness.run([dump, report]).stdout.splitlines())
    # The blocks that the probe reports lie where no tensor does.
    stacks = [(line["python"], line["native"]) for line in lines
              if line.get("kind") == 1 and line["level"] == "tensor" and line["ptr"] == 0x100_0000_0000]
    assert len(stacks) == STACKS
    for ids in zip(*stacks):
        assert len(set(ids)) == STACKS and 0 not in ids


@pytest.mark.slow
def test_the_library_stays_small(served):
    answers, _ = served
    alone, recorded = answers["without"][-1], answers["with"][-1]
    own = recorded["private"] - alone["private"] + recorded["own_files"]
    # KiB. Code, counters and ring take 6 MiB, 20,000 stacks of either kind less than one.
    assert alone["own_files"] == 0 < recorded["own_files"]
    assert own < 16 * 1024
