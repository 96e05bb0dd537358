"""Well-known libraries' programs, unchanged (tests/workloads/plan/programs): the figures of `gpumem plan` equal
PyTorch's own figures on the same simulated card.

By default a few, each with a different mechanism; all with GPUMEM_PLAN_PROGRAMS=all (docs/measured/plan-programs.md
has their figures)."""

import os

import plan_programs
import pytest

# Those whose runs are short: values and counts of boxes; a CUDA graph; LoRA by the Trainer; a hooked loop with fp16; ranks of torchrun;
# tensors of 4 bits; functions of PyTorch's that are replaced for a while.
FEW = ("bitsandbytes_qlora", "cuda_graph", "deepspeed_zero3", "detection_retinanet", "fsdp2", "lightning_mixed", "trainer_lora")
ALL = os.environ.get("GPUMEM_PLAN_PROGRAMS") == "all"


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", plan_programs.names() if ALL else FEW)
def test_the_plan_has_the_programs_own_peaks(name, python_env, tmp_path):
    run = plan_programs.Compared(python_env("programs"), name, tmp_path, both_ends=ALL)
    assert run.case["verdict"] == "fits"
    # Of the run where libraries take the least, and of the one where they take the most.
    assert run.planned[: len(run.own)] == run.own


def test_there_are_thirty():
    assert len(plan_programs.names()) >= 30
    assert set(plan_programs.READ_VALUES) | set(plan_programs.RANKS) | set(FEW) <= set(plan_programs.names())
