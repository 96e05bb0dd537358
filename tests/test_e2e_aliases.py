"""Memory that is reached a second way, recorded: every check of sim_alias.py under libgpumem.so. Each
process's counters are the simulated driver's books, so nothing is counted twice and nothing lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import harness
import pytest

WORKLOAD = Path(__file__).parent / "workloads" / "sim_alias.py"
FIGURES = ("current", "peak", "allocations", "frees")


@pytest.fixture(scope="module")
def dump():
    """Builds the example that prints a capture's records."""
    subprocess.run(
        ["cargo", "build", "--release", "--quiet", "-p", "gpumem", "--example", "dump"],
        cwd=harness.ROOT, check=True,
    )
    return harness.RELEASE / "examples" / "dump"


def recorded(dump, report):
    """A capture's figures at the driver level, by device."""
    lines = [json.loads(line) for line in harness.run([dump, report]).stdout.splitlines()]
    rows = (line for line in lines if line.get("counters") == "driver")
    return {
        row["device"]: (row["live"], row["peak"], row["allocations"], row["frees"]) for row in rows
    }


@pytest.mark.parametrize(
    ("check", "devices", "processes"),
    [
        ("reservations", 1, 1), ("handles", 1, 2), ("pools", 1, 2), ("ipc", 1, 2),
        ("external", 1, 1), ("sparse", 1, 1), ("planes", 1, 1), ("batches", 1, 1),
        ("green", 1, 1), ("old", 1, 1), ("ordinals", 2, 2),
        ("multicast", 2, 1), ("multicast_shared", 2, 2),
    ],
)
def test_the_counters_are_the_books(simulate, dump, tmp_path, check, devices, processes):
    environment = {
        "GPUMEM_SIM_BOOKS": str(tmp_path / "books-%p.json"),
        "GPUMEM_OUTPUT": str(tmp_path / "report-%p.bin"),
        "GPUMEM_QUIET": "1",
    }
    simulate(
        [sys.executable, WORKLOAD, check],
        devices=devices, memory="4GiB", preload=True, env=environment,
    )
    written = sorted(tmp_path.glob("books-*.json"))
    assert len(written) == processes
    for path in written:
        figures = recorded(dump, path.with_name(path.name.replace("books", "report")).with_suffix(".bin"))
        for device in json.loads(path.read_text())["devices"]:
            expected = tuple(device["driver"][name] for name in FIGURES)
            assert figures.get(device["ordinal"], (0, 0, 0, 0)) == expected, device["ordinal"]
