"""Several processes on the same simulated cards: each report separates its own memory from the others', and a
context that a process has on an unused card is shown as such."""

import json
import os

import harness
import pytest

MIB = 1 << 20
COST = 512 * MIB  # of a context


@pytest.fixture
def ranks(simulate, python_env, analyze_json, tmp_path):
    """ranks(plan) runs tests/workloads/cards_ranks.py: for each rank its ledger at the end by device, and
    what it read of NVML itself, by card."""

    def run(plan, devices):
        done = simulate(
            [python_env("py312"), harness.WORKLOADS / "cards_ranks.py", json.dumps(plan)],
            devices=devices, preload=True, env={"GPUMEM_QUIET": "1"},
        )
        [line] = [line for line in done.stdout.splitlines() if line.startswith("READINGS ")]
        assert sorted(os.listdir(tmp_path)) == [f"report.rank{n}.bin" for n in range(len(plan))]
        ledgers = [
            {
                entry["device"]: entry
                for entry in analyze_json("ledger", "--at", "end", tmp_path / f"report.rank{n}.bin")
            }
            for n in range(len(plan))
        ]
        return ledgers, json.loads(line[len("READINGS ") :])

    return run


def agrees(entry, reading):
    """Whether a ledger equals the process's own reading of the card, to the byte and without a residual."""
    assert entry["nvml_process_bytes"] == reading["process"]
    assert entry["nvml_used_bytes"] == entry["bytes"] == reading["used"]
    assert entry["other_processes_bytes"] == reading["others"]
    assert entry["unexplained_bytes"] == 0
    assert sum(row["bytes"] for row in entry["rows"]) == entry["bytes"]


def rows(entry, kind):
    return [(row["name"], row["bytes"]) for row in entry["rows"] if row["kind"] == kind]


def test_two_processes_on_one_card(ranks):
    (first, second), readings = ranks([[[0, 100]], [[0, 222]]], devices=1)
    for ledger, [reading] in zip((first, second), readings):
        agrees(ledger[0], reading)
    assert first[0]["other_processes_bytes"] == COST + 222 * MIB
    assert second[0]["other_processes_bytes"] == COST + 100 * MIB
    assert [size for _, size in rows(first[0], "other_processes")] == [COST + 222 * MIB]
    assert first[0]["physical_bytes"] == COST + 100 * MIB
    assert first[0]["bytes"] == second[0]["bytes"] == 2 * COST + 322 * MIB


def test_a_stray_context_on_the_first_card(ranks):
    """Rank 1 works on card 1, but made a context on card 0 first, as a program does that forgets to
    choose its card."""
    (first, second), readings = ranks([[[0, 100]], [[0, 0], [1, 222]]], devices=2)
    agrees(first[0], readings[0][0])
    agrees(second[0], readings[1][0])
    agrees(second[1], readings[1][1])
    # Rank 0 sees another process's context on its card; the report of rank 1 shows the owner.
    assert first[0]["other_processes_bytes"] == COST
    [(name, size)] = rows(second[0], "context")
    assert size == COST and "stray" in name and "rank 1" in name and "GPU 1" in name
    assert second[0]["other_processes_bytes"] == COST + 100 * MIB
    [(name, size)] = rows(second[1], "context")
    assert size == COST and "stray" not in name
    [(name, _)] = rows(first[0], "context")
    assert "stray" not in name


def test_three_processes_on_one_card(ranks):
    """What the others have is a sum."""
    ledgers, readings = ranks([[[0, 10]], [[0, 20]], [[0, 30]]], devices=1)
    for number, (ledger, [reading]) in enumerate(zip(ledgers, readings)):
        agrees(ledger[0], reading)
        own = 10 * (number + 1) * MIB
        assert ledger[0]["other_processes_bytes"] == 2 * COST + 60 * MIB - own
