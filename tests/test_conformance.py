"""The simulator against cards: the results of the conformance program on a real card and on the simulator must be
equal."""

import csv
import json
import sys

import harness
import pytest

sys.path.insert(0, str(harness.ROOT / "scripts" / "lib"))

import gpu_card  # noqa: E402

FACTS = harness.ROOT / "tests" / "conformance" / "facts"
PROGRAM = harness.BUILT / "conformance"
CONTEXT = "on the card NVML's figure of the process and of the card differ by 5.6 MiB: a context has one figure here"
# The cards, and how each one's simulator differs from it, with the reason.
CARDS = {
    "h100-580": (
        ("--card", "h100"),
        {
            "array.odd": "the driver pads rows; how many it lays out together one size does not tell",
            "context.first_nvml_step": CONTEXT,
            "context.second_back": CONTEXT,
            "context.second_step": CONTEXT,
        },
    ),
}


def differences(card, options):
    """Names of the facts that differ, with their values. Facts that the card's run did not record are not compared."""
    env = {"GPUMEM_SIM_DRIVER_VERSION": str(card["card.driver_version"])}
    done = harness.run([harness.WITH_SIMULATOR, *options, "--", PROGRAM], env=env)
    simulated = {name: fact for name, fact in json.loads(done.stdout).items() if name in card}
    return {line.split(":")[0]: line for line in gpu_card.compare(card, simulated)}


@pytest.mark.parametrize("name", CARDS)
def test_the_simulator_does_what_the_card_did(name):
    options, known = CARDS[name]
    found = differences(json.loads((FACTS / f"{name}.json").read_text()), options)
    unknown = [line for fact, line in found.items() if fact not in known]
    assert not unknown, "\n".join(unknown)
    gone = known.keys() - found.keys()
    assert not gone, f"no longer differ, and are to be taken off the list: {gone}"


def test_every_card_has_its_test():
    assert {path.stem for path in FACTS.iterdir()} == set(CARDS)


def test_the_recorder_sees_what_a_free_takes_from_a_pool(tmp_path):
    """`cuMemFree` of a pool's memory releases unused chunks, and no other call shows it before the next wait."""
    capture, events = tmp_path / "report.bin", tmp_path / "events.csv"
    env = {"LD_PRELOAD": str(harness.LIBRARY), "GPUMEM_OUTPUT": str(capture)}
    harness.run([harness.WITH_SIMULATOR, "--card", "h100", "--", PROGRAM], env=env)
    harness.run([harness.ANALYZER, "export", "csv", "-o", events, capture])
    with events.open() as lines:
        resized = [row for row in csv.DictReader(lines) if row["kind"] == "resize" and row["api"] == "cuMemFree_v2"]
    assert [row["bytes"] for row in resized] == ["0"]
