"""Categories of tensors, against the framework's own lists: parameters, buffers, gradients, states of optimizers.

What breaks these tests: a role that is read from the wrong object, a block's category moved without its bytes, a
rule that treats tensors that backward frees as something other than activations."""

import json
import random
import sqlite3
from collections import Counter
from contextlib import closing

import harness
import pytest
from lanes import slow
from profiled import moments

# The program without modules is first: a batch and other tensors outside of modules can be separated only if there are
# modules.
PROGRAMS = (
    "by_hand gpt saved gan lora foreach fused capturable momentum on_the_card compiled inference ddp fsdp".split()
)
# Sharded parameters and their gradients are made by FSDP itself: only the framework knows them.
ONLY_TOLD = {"fsdp"}
CATEGORIES = ("parameter", "gradient", "optimizer state")


@pytest.fixture(scope="module")
def recorded(forks, tmp_path_factory):
    """recorded("--untold") is the folder of a capture of all programs, and their output."""
    known = {}

    def run(*arguments):
        if arguments not in known:
            folder = tmp_path_factory.mktemp("categories")
            script = harness.WORKLOADS / "categories.py"
            env = {"PYTHONPATH": str(harness.ROOT / "python")}
            done = forks("torch215").run([script, *arguments, *PROGRAMS], cwd=folder, env=env)
            harness.analyze("export", "sqlite", "-o", folder / "events.sqlite", folder / "report.bin")
            known[arguments] = folder, [json.loads(line) for line in done.stdout.splitlines()]
        return known[arguments]

    return run


@pytest.mark.parametrize("arguments", ((), *slow((("--untold",),))), ids=("told", "found-out"))
def test_each_tensor_is_what_the_framework_says(arguments, recorded):
    folder, said = recorded(*arguments)
    seen = Counter()
    for moment, live in zip(said, moments(folder), strict=True):
        program = moment["program"]
        if arguments and program in ONLY_TOLD:
            continue
        wanted = {ptr: "parameter" for ptr in moment["buffer"]}
        for category in reversed(CATEGORIES):
            wanted.update((ptr, category) for ptr in moment[category])
        found = {ptr: category for ptr, (_, category) in live.items() if category in CATEGORIES}
        assert found == wanted, (program, moment["moment"])
        seen.update(wanted.values())
        seen[program] += 1
    assert set(PROGRAMS) - (ONLY_TOLD if arguments else set()) <= set(seen)
    assert all(seen[category] > 500 for category in CATEGORIES), seen


def by_category(report, at):
    rows = harness.analyze_json("lines", "--by", "category", "--level", "tensor", "--at", at, report)
    return {row["category"]: row["bytes"] for row in rows}


def test_categories_sum_to_the_level_at_any_event(recorded):
    folder, _ = recorded()
    report = folder / "report.bin"
    with closing(sqlite3.connect(folder / "events.sqlite")) as database:
        live = database.execute(
            "SELECT seq, live_bytes FROM events WHERE level = 'tensor' AND live_bytes IS NOT NULL ORDER BY seq"
        ).fetchall()
    dice = random.Random(22)
    for seq, size in dice.sample(live, 50):
        assert sum(by_category(report, str(seq)).values()) == size, seq
    assert sum(by_category(report, "end").values()) == live[-1][1]
    assert sum(by_category(report, "peak").values()) == max(size for _, size in live)
    lines = harness.analyze_json("lines", "--level", "tensor", report)
    assert all(sum(of["bytes"] for of in row["categories"]) == row["bytes"] for row in lines)
    only = [
        sum(
            row["bytes"]
            for row in harness.analyze_json("lines", "--category", name.replace(" ", "-"), report)
        )
        for name in ("parameter", "activation")
    ]
    peak = by_category(report, "peak")
    assert only == [peak["parameter"], peak["activation"]]


def test_timeline_and_summary_say_what_lines_say(recorded):
    """The timeline learns what a block was for when it ends, long after the points at which it was live."""
    folder, _ = recorded()
    report = folder / "report.bin"
    timeline = harness.analyze_json("timeline", report)
    [device] = timeline["devices"]
    assert all(band["category"] is None for band in device["bands"] if band["kind"] != "tensors")

    def of(point):
        bands = zip(device["bands"], point["bytes"], strict=True)
        return {band["category"]: size for band, size in bands if band["kind"] == "tensors" and size}

    points = [point for bucket in device["buckets"] for point in (bucket["most"], bucket["last"])]
    for point in points + [device["peak"]]:
        assert sum(of(point).values()) == point["tensor_bytes"], point["seq"]
    held = [point for point in points if len(of(point)) > 3]
    for point in [device["peak"], *random.Random(22).sample(held, 30)]:
        assert of(point) == by_category(report, str(point["seq"])), point["seq"]
    [summed] = harness.analyze_json("report", "--all", report)["devices"]
    for moment in ("live", "peak"):
        found = {row["category"]: row[f"{moment}_bytes"] for row in summed["categories"] if row[f"{moment}_bytes"]}
        assert found == by_category(report, {"live": "end"}.get(moment, moment)), moment
    [ledger] = harness.analyze_json("ledger", report)
    assert {row["category"]: row["bytes"] for row in ledger["categories"]} == of(device["peak"])


def test_what_a_forward_keeps_for_backward_is_an_activation(recorded):
    """PyTorch's own hooks say what is saved; the batch and the parameters are saved too."""
    folder, said = recorded()
    seen = Counter()
    for moment, live in zip(said, moments(folder), strict=True):
        for ptr in moment["saved"]:
            seen[live[ptr][1]] += 1
        if moment["saved"]:
            unsaved = [size for ptr, (size, category) in live.items() if category == "activation" and ptr not in moment["saved"]]
            # What the last function of the forward returned is the loss.
            assert sum(unsaved) <= 512, unsaved
    assert set(seen) == {"activation", "parameter", "input"} and seen["activation"] > 50, seen
    assert seen["input"] == 2 * 3, seen
