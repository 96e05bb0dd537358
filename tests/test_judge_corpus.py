"""Random programs with a planted fault, or none: what the judge says of them is true (docs/measured/judge.md).

What breaks these tests: a rule that takes one fault for another, a line or a holder that is not the program's, advice that
does not help, and a fault that is called none."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "lib" / "planted"))

import program  # noqa: E402
import score  # noqa: E402

CAUSE = {
    "kind": "kept_graphs", "certainty": "proven",
    "what": "autograd graphs of 2 earlier rounds are still live, from program.py:{line}; kept by the graph of {keeper}[0…1]",
    "advice": "store .item() or .detach() of the tensor in history, not the tensor with its graph",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(program.KINDS))
def test_programs_of_a_kind_depend_on_the_seed_alone_and_can_be_fixed(name):
    sources = set()
    for seed in range(8):
        made = program.make(name, seed)
        assert made == program.make(name, seed)
        sources.add(made.text())
        for fix in (None, *made.fixes):
            compile(made.text(fix), name, "exec")
        assert made.text().count(program.ROUND) >= 1 and program.CULPRIT not in made.text()
        assert made.fixes.keys() <= score.ACTIONS.keys() and made.never <= score.ACTIONS.keys()
    assert len(sources) > 1 or not made.lines, name


def test_a_verdict_is_scored_by_cause_line_keeper_and_advice():
    made = program.make("graph_kept", 3)
    [keeper] = made.keepers

    def scored(**changed):
        cause = {**CAUSE, "what": CAUSE["what"].format(line=max(made.lines), keeper=keeper), **changed}
        return score.scored(made, cause)[0]

    assert scored() == "right"
    assert scored(kind="no_backward") == "partly"
    assert scored(what=CAUSE["what"].format(line=1, keeper=keeper)) == "partly"
    assert scored(what=CAUSE["what"].format(line=max(made.lines), keeper="other")) == "partly"
    assert scored(advice="store .detach() of it, and .clone() it") == "partly"
    assert scored(kind="fragmentation") == "misleading"
    assert scored(advice="use a larger card") == "misleading"
    assert scored(kind="unknown", advice=None) == "silent"


@pytest.mark.slow
def test_most_verdicts_are_right(python_env, tmp_path):
    told = []
    kinds = sorted(program.KINDS)[::2]
    all_of = score.corpus(python_env("torch215"), len(kinds), 40, tmp_path, False, kinds, report=told.append)
    text = "\n".join([*told, score.table(all_of)])
    assert len(all_of) >= 0.8 * len(kinds), text
    assert score.precision(all_of) >= 0.98 and score.recall(all_of) >= 0.9, text
