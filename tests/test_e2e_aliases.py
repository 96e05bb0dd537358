"""Memory with a second address or owner, recorded: every check of sim_alias.py and sim_parts.py under libgpumem.so.
Each process's counters equal the simulated driver's books, so no memory is counted twice or lost."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import harness
import pytest

WORKLOADS = Path(__file__).parent / "workloads"
FIGURES = ("current", "peak", "allocations", "frees")


def recorded(dump, report):
    """A capture's figures at the driver level, by device."""
    lines = [json.loads(line) for line in harness.run([dump, report]).stdout.splitlines()]
    rows = (line for line in lines if line.get("counters") == "driver")
    return {
        row["device"]: (row["live"], row["peak"], row["allocations"], row["frees"]) for row in rows
    }


@pytest.mark.parametrize(
    ("workload", "check", "devices", "processes"),
    [
        ("sim_alias.py", "reservations", 1, 1),
        ("sim_alias.py", "handles", 1, 2),
        ("sim_alias.py", "ordinals", 2, 2),
        ("sim_alias.py", "pools", 1, 2),
        ("sim_alias.py", "ipc", 1, 2),
        ("sim_alias.py", "external", 1, 1),
        ("sim_alias.py", "multicast", 2, 1),
        ("sim_alias.py", "multicast_shared", 2, 2),
        ("sim_parts.py", "planes", 1, 1),
        ("sim_parts.py", "batches", 1, 1),
        ("sim_parts.py", "green", 1, 1),
        ("sim_parts.py", "old", 1, 1),
    ],
)
def test_the_counters_are_the_books(
    simulate, dump, tmp_path, workload, check, devices, processes
):
    environment = {
        "GPUMEM_SIM_BOOKS": str(tmp_path / "books-%p.json"),
        "GPUMEM_OUTPUT": str(tmp_path / "report-%p.bin"),
        "GPUMEM_QUIET": "1",
    }
    simulate(
        [sys.executable, WORKLOADS / workload, check],
        devices=devices, memory="4GiB", preload=True, env=environment,
    )
    written = sorted(tmp_path.glob("books-*.json"))
    assert len(written) == processes
    for path in written:
        figures = recorded(dump, path.with_name(path.name.replace("books", "report")).with_suffix(".bin"))
        for device in json.loads(path.read_text())["devices"]:
            expected = tuple(device["driver"][name] for name in FIGURES)
            assert figures.get(device["ordinal"], (0, 0, 0, 0)) == expected, device["ordinal"]
