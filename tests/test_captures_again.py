"""The captures that are checked in (tests/data/captures) are what the recorder makes of their programs today. Tests of views,
exports and texts read them, so this test is the one that finds a recorder that records something else.

What breaks these tests: a change of what is recorded, of stacks, categories, phases or failures; a capture that was not
recorded again after a change of its program."""

import gzip
import os
import re
import subprocess
from collections import Counter
from pathlib import Path

import captures
import harness
import pytest

SCRIPT = harness.ROOT / "scripts" / "lib" / "docs-captures"
ALL = sorted(path.relative_to(captures.FOLDER) for path in captures.FOLDER.rglob("*.bin*"))
# Which stacks are sampled is chosen at random: only figures that are not by stack are the same.
SAMPLED = ("sampled/both", "sampled/python")


def name_of(path):
    return str(path).partition(".bin")[0]


def figures(report, sampled=False):
    """The figures of a capture, without addresses, times, numbers of events and folders."""
    summary = harness.analyze_json("report", "--all", report, check=False)
    found = {"exact": summary["exact"], "steps": summary["steps"], "missing": summary.get("missing")}
    for device in summary["devices"]:
        of = found[device["ordinal"]] = {level: device[level] for level in ("tensor", "driver", "host", "reserved")}
        of["categories"] = sampled or {row["category"]: (row["live_bytes"], row["peak_bytes"]) for row in device.get("categories", ())}
    for at in () if sampled else ("peak", "end"):
        lines = Counter()
        for row in harness.parts_of(harness.analyze_json("lines", "--at", at, report, check=False)):
            place = (row["device"], Path(row["file"] or "").name, row["line"], row["function"], row.get("phase"), row.get("node"))
            lines[place] += row["bytes"]
        found[at] = +lines
    oom = harness.analyze_json("oom", report, check=False)
    found["failures"] = [(of["requested_bytes"], of["line"], of["exception"], of["refusals"]) for of in oom["failures"]]
    found["cause"] = (oom.get("cause") or {}).get("kind")
    return found


@pytest.mark.parametrize("environment", captures.TRAININGS)
def test_a_training_is_recorded_as_ever(environment, forks, tmp_path):
    script = [harness.WORKLOADS / name for name in ("tell.py", "train.py")]
    options = ("--steps", "4", "--batch", "16")
    forks(environment).run([script[0], "--end", "exit", script[1], *options], cwd=tmp_path)
    assert figures(tmp_path / "report.bin") == figures(captures.trained(environment).report)


@pytest.fixture(scope="module")
def again(python_env, tmp_path_factory):
    """All captures, recorded again."""
    python_env("torch215"), python_env("torch112")
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "--uts", "true"]).returncode != 0:
        pytest.skip("scripts/lib/docs-captures needs root and mount namespaces")
    folder = tmp_path_factory.mktemp("again")
    harness.run([SCRIPT, "--into", folder], timeout=1500)
    return folder


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("path", ALL, ids=name_of)
def test_all_are_recorded_as_ever(path, again, tmp_path):
    sides = []
    for folder in (captures.FOLDER, again):
        report = tmp_path / f"{len(sides)}.bin"
        content = (folder / path).read_bytes()
        report.write_bytes(gzip.decompress(content) if path.suffix == ".gz" else content)
        sides.append(figures(report, name_of(path) in SAMPLED))
    assert sides[0] == sides[1]


def failures_in(text):
    """The first line of the recorder and of PyTorch about each failure; numbers may be addresses."""
    lines = [line for line in text.splitlines() if line.startswith("gpumem: out of memory") or re.match(r"[\w.]+Error: ", line)]
    return [re.sub(r"0x[0-9a-f]+", "0x…", line) for line in lines]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_failures_are_printed_as_ever(again):
    texts = list(captures.FOLDER.rglob("*.txt"))
    found = {path: failures_in(path.read_text()) for path in texts}
    assert found == {path: failures_in((again / path.relative_to(captures.FOLDER)).read_text()) for path in texts}
    assert sum(map(len, found.values())) > 10
