"""The share of a transformer's and of a conv net's training that is charged to lines, at the peak and of all that
backward allocates, in every way to train with PyTorch. Real PyTorch on the simulator.

What breaks these tests: a kind of node whose forward is lost, one that runs unrecorded, a way to train that makes
nodes on its own thread or with its own number, frames of a library or of generated code that count as the user's."""

from collections import Counter

import harness
import pytest
from test_e2e_backward import Records
from test_interposer import ALLOC, QUIET  # noqa: F401

MODELS = ("transformer", "convolutions")
# By process, as each of them takes a while.
EVERYWHERE = {
    "optimizers": ("adam", "sgd", "lbfgs", "mixed_precision", "two_gpus", "cpu_graph_into_cuda"),
    "graphs": (
        "custom_function", "reentrant_checkpoint", "checkpoint_without_reentry", "retain_graph", "double_backward",
        "exception", "saved_tensors_hooks", "four_threads", "dead_forward_threads",
    ),
    "others": ("scripted", "data_parallel"),
}
ONLY_NEW = {
    "compilers": ("vmapped_gradients", "compiled", "compiled_autograd"),
    "sharded": ("fully_sharded", "fully_sharded_2"),
}
# Compiling takes a while; test_e2e_backward.py has a case of each.
SLOW = ("compilers",)
CASES = [
    pytest.param(environment, process, case, marks=[pytest.mark.slow] * (process in SLOW))
    for environment, processes in (("torch215", {**EVERYWHERE, **ONLY_NEW}), ("torch112", EVERYWHERE))
    for process, cases in processes.items()
    for case in cases
]


@pytest.fixture(scope="session")
def trained_so(forks, dump, tmp_path_factory):
    """The records and the capture of a process that trained both models in some ways; run once each."""
    known = {}

    def trained_so(environment, process):
        if (environment, process) not in known:
            folder = tmp_path_factory.mktemp("charged")
            cases = {**EVERYWHERE, **ONLY_NEW}[process]
            forks(environment).run([harness.WORKLOADS / "charged_models.py", *cases], cwd=folder, env=QUIET, devices=2)
            known[environment, process] = Records(dump, folder / "report.bin"), folder / "report.bin"
        return known[environment, process]

    return trained_so


def owners_at_peak(records, within):
    """Bytes by owner when most was live on all devices, of what was allocated so far, within a range."""
    live, total, peak, end = {}, 0, -1, 0
    events = list(records.tensors(within))
    for place, (event, wanted) in enumerate(events):
        total += event["bytes"] if event["kind"] == ALLOC else -event["bytes"]
        if wanted and total > peak:
            peak, end = total, place + 1
    for event, _ in events[:end]:
        key = event["device"], event["ptr"]
        if event["kind"] == ALLOC:
            live[key] = event
        else:
            del live[key]
    owners = Counter()
    for event in live.values():
        owners[records.owner(event["python"])] += event["bytes"]
    assert sum(owners.values()) == peak > 0
    return owners


def share_with_a_line(owners):
    return sum(size for owner, size in owners.items() if owner.function) / sum(owners.values())


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("environment", "process", "case"), CASES)
def test_nearly_all_has_a_line(environment, process, case, model, trained_so):
    records, _ = trained_so(environment, process)
    assert records.notes == []
    within = f"{model} {case}"
    owners = records.bytes_by_owner(within)
    backward = Counter({owner: size for owner, size in owners.items() if owner.node})
    assert sum(backward.values()) > 0.05 * sum(owners.values()), "backward is recorded as such"
    assert share_with_a_line(owners_at_peak(records, within)) >= 0.99
    assert share_with_a_line(backward) >= 0.99, backward.most_common(20)
    assert share_with_a_line(owners) >= 0.99


@pytest.mark.parametrize(
    ("environment", "process"), {case.values[:2]: pytest.param(*case.values[:2], marks=case.marks) for case in CASES}.values()
)
def test_the_report_says_the_same(environment, process, trained_so):
    _, report = trained_so(environment, process)
    rows = harness.analyze_json("lines", "--level", "tensor", "--at", "peak", report)
    charged = sum(row["bytes"] for row in rows if row["file"] and row["file"].endswith("charged_models.py"))
    assert charged >= 0.99 * sum(row["bytes"] for row in rows) > 0
