"""Shared by the tests of the zoo: a program runs with and without the recorder with the same effect, and its capture
agrees with the last books that it printed."""

from __future__ import annotations

import functools
import os
import re
import subprocess
from pathlib import Path

import harness
import pytest

# The option of these tests: how often each animal runs.
ROUNDS = int(os.environ.get("GPUMEM_ZOO_ROUNDS", "1"))
ZOO = harness.WORKLOADS / "zoo"
BOOKS = re.compile(r"^.*: (\d+) live, (\d+) peak$")
QUIET = {"GPUMEM_QUIET": "1"}
# A ring with room for all that a program does, however little the recorder's thread that empties it gets to run.
LARGE_RING = {"GPUMEM_RING_SLOTS": "524288"}


def preloading(*libraries) -> dict[str, str]:
    """LD_PRELOAD of these libraries in that order."""
    return {"LD_PRELOAD": ":".join(map(str, libraries))}


def checked(report: Path) -> dict:
    """`gpumem-analyze check` of a capture, as JSON; with its exit code under "exit"."""
    done = harness.analyze("check", "--format", "json", report, check=False)
    assert done.returncode in (0, 3), harness.described(done)
    return {**harness.unwrapped(done.stdout), "exit": done.returncode}


def driver_of(report: Path) -> dict:
    """The driver's level of device 0 in a capture's summary."""
    done = harness.analyze("report", "--all", "--format", "json", report, check=False)
    assert done.returncode in (0, 3), harness.described(done)
    return harness.device_of(harness.unwrapped(done.stdout))["driver"]


def last_books(output: str) -> tuple[int, int]:
    """Live bytes and their peak by the last line of books that a program printed."""
    found = [BOOKS.match(line) for line in output.splitlines()]
    books = [match for match in found if match]
    assert books, output
    return int(books[-1][1]), int(books[-1][2])


def assert_whole(report: Path, ending: str | None = None) -> dict:
    """Nothing is missing from a capture and its counters agree with its events."""
    state = checked(report)
    assert (state["exit"], state["whole"], state["lost_events"]) == (0, True, 0), state
    # A killed process may not have written its counters yet: it does so every 50 ms.
    known = state["ending"] != "killed" or state["counters_agree"] is not None
    assert state["counters_agree"] is (True if known else None), state
    assert state["damage"] == [] and state["missing"] == [], state
    if ending is not None:
        assert ending in state["ending"], state
    return state


def assert_exact(report: Path, output: str) -> None:
    """A capture is whole, and its figures are those of the last books that the program printed."""
    assert_whole(report)
    found = driver_of(report)
    assert (found["live_bytes"], found["peak_bytes"]) == last_books(output)


_without: dict[str, harness.Done] = {}


def live_together(
    folder: Path, command, code: int, *, env=None, recorder_env=None, drop=(), says=()
) -> harness.Done:
    """Runs a program of the zoo without the recorder (once a session, for it does the same each time) and
    with it, in `folder`; result and output must be the same. `env` is for both, `recorder_env` for the
    recorded one; lines of stderr that start with one of `drop` are the animal's own and differ. `says` are
    the recorder's lines, as regular expressions."""
    key = repr((command, env))
    folder.mkdir(exist_ok=True)
    if key not in _without:
        alone = folder.with_name(folder.name + ".without")
        alone.mkdir(exist_ok=True)
        _without[key] = harness.simulate(command, cwd=alone, env=env, check=False)
        assert not list(alone.rglob("report*")), "without the recorder nothing is recorded"
    without = _without[key]
    assert without.returncode == code, harness.described(without)
    recorded = harness.simulate(
        command, cwd=folder, preload="LD_PRELOAD" not in (recorder_env or {}), check=False,
        env={**QUIET, **(env or {}), **(recorder_env or {})},
    )
    own = [
        [line for line in done.stderr.splitlines() if not line.startswith(("gpumem: ", *drop))]
        for done in (without, recorded)
    ]
    ours = [line for line in recorded.stderr.splitlines() if line.startswith("gpumem: ")]
    assert (recorded.returncode, recorded.stdout) == (without.returncode, without.stdout), (
        harness.described(recorded)
    )
    assert own[0] == own[1], harness.described(recorded)
    assert len(ours) == len(says), harness.described(recorded)
    for line, wanted in zip(ours, says):
        assert re.search(wanted, line), f"{line!r} is not {wanted!r}"
    return recorded


def assert_nothing_lost(report: Path) -> dict:
    """Every event whose hook had returned is there. A process that ended while others allocated may leave
    some unfinished, and counters that were being changed."""
    state = checked(report)
    assert (state["exit"], state["whole"], state["lost_events"]) == (0, True, 0), state
    assert state["counters_agree"] is not False and state["damage"] == [], state
    return state


@functools.lru_cache(maxsize=None)
def _debian_library(package: str, library: str) -> tuple[str | None, str]:
    found = subprocess.run(
        [harness.ROOT / "scripts/lib/debian-library", package, library],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )
    return (found.stdout.strip() if found.returncode == 0 else None), found.stderr.strip()


def debian_library(package: str, library: str) -> str:
    """The path of a library of Debian's; skips the test where it is not available."""
    path, said = _debian_library(package, library)
    if path is None:
        pytest.skip(f"{library} is not at hand: {said}")
    return path
