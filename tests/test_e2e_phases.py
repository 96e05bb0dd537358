"""The phases of a training (tests/data/captures) that have no mark: data, evaluation, after the training; and all phases
together.

What breaks these tests: a phase other than forward that is called forward, a phase that depends on whether the
program failed later, or rows of phases that do not sum to the level's own figure."""

import harness
import pytest
from captures import capture

PROGRAM = harness.WORKLOADS / "all_phases.py"
PHASES = ["forward", "evaluation", "after-training", "data", "set-up", "backward", "optimizer", "other"]
MIB = 1 << 20


def line_of(part):
    return next(number for number, line in enumerate(PROGRAM.read_text().splitlines(), 1) if part in line)


def phases(report, *options):
    """Bytes by line and phase."""
    found = {}
    for row in harness.parts_of(harness.analyze_json("lines", *options, report)):
        key = (row["line"], row.get("phase"))
        found[key] = found.get(key, 0) + row["bytes"]
    return found


def test_each_phase_has_its_lines():
    found = phases(capture("phases/all"))
    module = line_of("return self.layers(x)")
    assert found[line_of("net = Net()"), "set_up"] > MIB
    assert found[line_of("# data"), "data"] == 8 * MIB
    assert found[line_of("# data of the evaluation"), "data"] == 6 * MIB
    assert found[module, "forward"] == 8 * MIB
    assert found[module, "evaluation"] == 6 * MIB
    assert found[line_of("# after the training"), "after_training"] == 64 * MIB
    assert found[module, "after_training"] >= 64 * MIB
    assert found[module, "backward"] > MIB
    assert found[line_of("optimizer.step()"), "optimizer"] > 2 * MIB
    assert {phase for _, phase in found} == {"set_up", "data", "forward", "evaluation", "after_training", "backward", "optimizer"}


@pytest.mark.parametrize("at", ["peak", "500", "step=5", "end"])
def test_phases_sum_to_the_level(at):
    report = capture("phases/all")
    whole = sum(row["bytes"] for row in harness.analyze_json("lines", "--at", at, report))
    parts = {name: sum(phases(report, "--at", at, "--phase", name).values()) for name in PHASES}
    assert sum(parts.values()) == whole, parts
    if at == "peak":
        peaks = harness.analyze_json("timeline", "--level", "tensor", report)["devices"][0]["peaks"]
        [peak] = [of["bytes"] for of in peaks if of["level"] == "tensor"]
        assert whole == peak and parts["other"] == 0 and all(parts[name] for name in PHASES[:-1])


def test_where_memory_ran_out_nothing_is_after_the_training():
    """It may have been a step: what would have come is not known."""
    report = capture("phases/fail")
    found = phases(report, "--at", "oom")
    assert not any(phase == "after_training" for _, phase in found)
    assert found[line_of("# after the training"), "forward"] == 64 * MIB
    assert found[line_of("return self.layers(x)"), "forward"] > 64 * MIB
    failure = harness.analyze("oom", report).stdout.replace("\n                ", " ")
    assert f"requested at {PROGRAM.name}:{line_of('1 << 40')} after" in failure


def test_without_backward_there_are_no_phases():
    assert {phase for _, phase in phases(capture("phases/off"))} == {None}
