"""Processes that end or multiply in unusual ways, and whose captures are complete nevertheless.

What breaks these tests: flushing only at exit (the killed runs lose events), a drain thread or ring that a child
inherits and writes to, a child that removes or finishes its parent's capture, an exit handler that runs before the
program's own, or state kept in thread-local destructors."""

import random
import signal
import subprocess

import harness
import pytest
from lanes import lanes


def model_of(steps):
    """What steps_until_killed.py has live, its peak, allocations and frees after `steps` steps."""
    sizes, live, peak, frees = [], 0, 0, 0
    for step in range(steps):
        sizes.append((step % 97 + 1) * 512)
        live += sizes[-1]
        peak = max(peak, live)
        if step % 3 == 2:
            live -= sizes.pop(0)
            frees += 1
    return {"live_bytes": live, "peak_bytes": peak, "allocations": steps, "frees": frees}


@pytest.mark.parametrize("seed", lanes(range(4)))
def test_killed_at_any_moment(seed, python_env, tmp_path, analyze, analyze_json):
    """The capture has every step whose line was printed before the kill. The step in progress may also be there, but
    only as a whole allocation or a whole free."""
    wanted = random.Random(seed).randrange(5, 5000)
    process = subprocess.Popen(
        harness.simulator_command([python_env("torch215"), harness.WORKLOADS / "steps_until_killed.py"]),
        env=harness.clean_environment(harness.preloaded()),
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )
    lines = [process.stdout.readline() for _ in range(wanted)]
    process.send_signal(signal.SIGKILL)
    # Not communicate(): it would leave out what readline() has buffered.
    rest, errors = process.stdout.read(), process.stderr.read()
    assert process.wait() == -signal.SIGKILL, errors
    lines.extend(line for line in rest.splitlines(keepends=True) if line.endswith(b"\n"))
    step, live, peak = map(int, lines[-1].split())
    last = model_of(step + 1)
    assert (live, peak) == (last["live_bytes"], last["peak_bytes"]), "the model is right"

    report = tmp_path / "report.bin"
    analyze("check", report)
    summary = analyze_json("report", "--all", report)
    found = harness.device_of(summary)["tensor"]
    following = model_of(step + 2)
    half = dict(following)  # the next step's allocation without its free
    if following["frees"] > last["frees"]:
        half["frees"] = last["frees"]
        half["live_bytes"] = last["live_bytes"] + ((step + 1) % 97 + 1) * 512
    assert {key: found[key] for key in last} in (last, half, following)
    assert summary["lost_events"] == 0


def test_killed_in_backward(python_env, simulate, tmp_path, analyze, analyze_json):
    """The process kills itself on autograd's thread right after it printed PyTorch's figures: the
    capture has exactly those."""
    done = simulate(
        [python_env("torch215"), harness.WORKLOADS / "killed_in_backward.py"], preload=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, harness.described(done)
    own = harness.figures(done)["devices"][0]
    report = tmp_path / "report.bin"
    analyze("check", report)
    device = harness.device_of(analyze_json("report", "--all", report))
    assert device["tensor"] == {
        **device["tensor"],
        "live_bytes": own["allocated"],
        "peak_bytes": own["max_allocated"],
        "allocations": own["allocations"],
        "frees": own["frees"],
    }
    books = harness.figures(done)["books"]["devices"][0]["driver"]
    assert device["driver"]["live_bytes"] == books["current"]
    assert device["driver"]["peak_bytes"] == books["peak"]


CHILDREN = {
    "exit": 1, "return": 1, "exec": 1, "workers": 1, "pinned workers": 1, "pool": 1, "spawn": 2,
    "forkserver": 2,
}


@pytest.mark.parametrize("how", lanes(CHILDREN, ("spawn",)))
def test_children_stay_out_of_the_capture(how, python_env, simulate, tmp_path, analyze, analyze_json):
    """The parent's figures are its own to the byte; only a child that uses the card has an additional report."""
    done = simulate([python_env("torch215"), harness.WORKLOADS / "forks.py", how], preload=True)
    own = harness.figures(done)
    reports = sorted(tmp_path.glob("report*.bin"))
    assert len(reports) == CHILDREN[how], reports
    analyze("check", tmp_path / "report.bin")
    device = harness.device_of(analyze_json("report", "--all", tmp_path / "report.bin"))
    assert device["tensor"]["live_bytes"] == own["devices"][0]["allocated"]
    assert device["tensor"]["peak_bytes"] == own["devices"][0]["max_allocated"]
    assert device["tensor"]["allocations"] == own["devices"][0]["allocations"]
    books = own["books"]["devices"][0]
    assert device["driver"]["live_bytes"] == books["driver"]["current"]
    assert device["host"]["live_bytes"] == books["host"]["current"]
    if how in ("spawn", "forkserver"):
        child = next(path for path in reports if path.name != "report.bin")
        assert harness.device_of(analyze_json("report", "--all", child))["tensor"]["peak_bytes"] == 8 * 512


ENDINGS = {
    "return": 3, "_exit": 5, "quick_exit": 8, "atexit": 9, "thread exits": 4, "main ends first": 6,
    "threads die": 10, "abort": -signal.SIGABRT, "SIGTERM": -signal.SIGTERM, "dlclose": 11, "exec": 12,
}


@pytest.mark.parametrize("how", ENDINGS)
def test_every_way_to_end(how, build_c, simulate, tmp_path, analyze, analyze_json):
    """Exit code and output as without the library, and the capture's live and peak bytes are those
    that the simulator's books had when the process ended."""
    client = build_c("exits.c", "-ldl", "-pthread")
    without = simulate([client, how], check=False)
    assert without.returncode == ENDINGS[how], harness.described(without)
    done = simulate([client, how], preload=True, env={"GPUMEM_QUIET": "1"}, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (
        without.returncode, without.stdout, without.stderr,
    )
    current, peak = map(int, done.stdout.splitlines()[-1].split())
    report = tmp_path / "report.bin"
    analyze("check", report)
    driver = harness.device_of(analyze_json("report", "--all", report))["driver"]
    assert (driver["live_bytes"], driver["peak_bytes"]) == (current, peak)
