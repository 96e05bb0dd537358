"""Programs after public reports that ran out of memory (tests/workloads/causes): the cause, its line and its figure.

What breaks these tests: rounds of a loop that are not seen, or layers that count as rounds; results that are taken for
graphs, or graphs for results; free memory that the request cannot use and that counts; memory outside of PyTorch that
does not."""

import re

import harness
import pytest
from captures import capture

PROGRAMS = harness.WORKLOADS / "causes"
# Of each program: the kind, bytes in MiB within 3 %, and parts of the text. {N} is the number of the line with that text.
CAUSES = {
    "checkpoint_eval": ("activations", 381, ["checkpoint_eval.py:{return x + self.down(}"]),
    "detached": ("kept_tensors", 89, ["84 earlier rounds", "detached.py:{obs = torch.randn}", "kept by rollout[0…83][0…1]"]),
    "entropy": ("alike", 566, ["5 tensors of 125 MiB", "entropy.py:{logp = logits.log_softmax}"]),
    "eval_cat": ("lengthened", 282, ["eval_cat.py:{torch.cat(}"]),
    "first_forward": ("activations", 384, ["first_forward.py:{return self.layers(x)}"]),
    "ipc": ("kept_tensors", 1152, ["ipc.py:{rollout = }", "kept by queue._buffer[…]", "shared memory with other processes"]),
    "kept_train2": ("previous_round", 1280, ["kept_train.py:{aux = }", "del aux"]),
    "kept_train3": ("kept_graphs", 2304, ["2 earlier rounds", "kept_train.py:{aux = }", "the graph of logs[0] and the graph of aux", "tensor in logs"]),
    "lbfgs_chain": ("kept_graphs", 264, ["25 earlier rounds", "lbfgs_chain.py:{self.s = torch.cat}", "kept by the graph of opt.s, local of main"]),
    "microbatch_sum": ("no_backward", 661, ["55 earlier rounds", "microbatch_sum.py:{cross_entropy(}", "the graph of total, local of train", "call backward() in each round"]),
    "nograd_eval_dies": ("alike", 384, ["3 tensors of 128 MiB", "nograd_eval_dies.py:{h = torch.relu}"]),
    "nograd_lists": ("kept_tensors", 264, ["176 MiB from nograd_lists.py:{x = torch.randn}", "88.0 MiB from nograd_lists.py:{return self.b(}", "kept by inputs[0…87] and preds[0…87], local of predict"]),
    "other_library": ("other_library", 400, ["other_library.py:{cuMemAlloc}", "tensors hold 20.0 MiB"]),
    "other_then_torch": ("other_library", 400, ["other_then_torch.py:{cuMemAlloc}"]),
    "replay_state": ("no_backward", 388, ["25 earlier rounds", "replay_state.py:{h, c = self.cell}", "replay.items[0…24]"]),
    "sampling_chain": ("no_backward", 1372, ["42 earlier rounds", "kept by the graph of x, local of DDPM.sample"]),
    "side_stream": ("other_streams", 176, ["in 11 blocks", "this request's stream has 31.0 MiB"]),
    "unflattened": ("copies", 705, ["353 MiB unflattened.py:", "352 MiB unflattened.py:"]),
    "unfreeze": ("new", 384, ["256 MiB optimizer state unfreeze.py:{opt.step()}"]),
    "view_cache": ("kept_tensors", 360, ["45 earlier rounds", "view_cache.py:{return self.out(}", "kept by cache.table[…]", ".clone()"]),
}
# Words that no text about these may contain: advice that does not help, or that breaks the program.
NEVER = {
    "detached": ["graph", "no_grad"],
    "eval_cat": ["expandable_segments"],
    "ipc": ["delete the tensors"],
    "microbatch_sum": ["fragmentation"],
    "nograd_lists": ["no_grad", "graph"],
    "side_stream": ["expandable_segments"],
    "view_cache": ["graph"],
}


def numbered(program, text):
    """Each {part of a line} by that line's number in the program."""
    source = (PROGRAMS / f"{program}.py").read_text().splitlines()
    number = lambda found: str(next(n for n, line in enumerate(source, 1) if found[1] in line))  # noqa: E731
    return re.sub(r"\{(.*?)\}", number, text)


@pytest.mark.parametrize("name", CAUSES)
def test_the_cause_is_what_is_true_of_the_program(name):
    kind, mebibytes, parts = CAUSES[name]
    cause = harness.analyze_json("oom", capture(f"causes/{name}"))["cause"]
    text = f"{cause['what']} → {cause['advice']}"
    assert cause["kind"] == kind, text
    assert abs(cause["bytes"] / 2**20 - mebibytes) <= mebibytes * 0.03, text
    for part in parts:
        assert numbered(re.sub(r"\d$", "", name), part) in text, (part, text)
    for word in NEVER.get(name, ()):
        if word != "graph" or "tensors that have a graph" not in text:
            assert word not in text, (word, text)
