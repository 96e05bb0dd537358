"""This rank's coordinates in the groups of Megatron-LM and DeepSpeed, read from their modules if
the program has imported them."""

import contextlib
import gc
import sys
from typing import Any, Dict, Iterator, Optional, Tuple

_MEGATRON = "megatron.core.parallel_state"
_MEGATRON_GROUPS = (
    ("tp", "_TENSOR_MODEL_PARALLEL_GROUP"),
    ("pp", "_PIPELINE_MODEL_PARALLEL_GROUP"),
    ("cp", "_CONTEXT_PARALLEL_GROUP"),
    ("ep", "_EXPERT_MODEL_PARALLEL_GROUP"),
    ("dp", "_DATA_PARALLEL_GROUP"),
)
_DEEPSPEED_PIPES = "deepspeed.runtime.pipe.topology"
_DEEPSPEED_AXES = {"pipe": "pp", "data": "dp", "model": "tp"}
_DEEPSPEED_GROUPS = "deepspeed.utils.groups"

MODULES = (_MEGATRON, _DEEPSPEED_PIPES, _DEEPSPEED_GROUPS)


def places(distributed: Any) -> Iterator[Dict[str, int]]:
    """By framework, with the common names: dp, tp, pp, cp, ep."""
    for framework in (_megatron, _deepspeed_groups):
        # If another version stores them differently, they are not reported.
        with contextlib.suppress(Exception):
            ranks = {name: distributed.get_rank(group) for name, group in framework()}
            # -1: this rank is not in the group.
            yield {name: rank for name, rank in ranks.items() if rank >= 0}
    with contextlib.suppress(Exception):
        yield _deepspeed_pipes()


def _megatron() -> Iterator[Tuple[str, Any]]:
    state = sys.modules.get(_MEGATRON)
    for name, variable in _MEGATRON_GROUPS:
        group = getattr(state, variable, None)
        if group is not None:
            yield name, group


def _deepspeed_groups() -> Iterator[Tuple[str, Any]]:
    groups = sys.modules.get(_DEEPSPEED_GROUPS)
    tensor = getattr(groups, "_TENSOR_MODEL_PARALLEL_GROUP", None)
    if tensor is not None:
        yield "tp", tensor
    # Layers with different numbers of experts have groups of different sizes, and a rank is in each.
    experts = list((getattr(groups, "_EXPERT_PARALLEL_GROUP", None) or {}).values())
    if len(experts) == 1:
        yield "ep", experts[0]


def _deepspeed_pipes() -> Dict[str, int]:
    kind: Optional[Any] = getattr(sys.modules.get(_DEEPSPEED_PIPES), "PipelineParallelGrid", None)
    grids = [thing for thing in gc.get_objects() if type(thing) is kind] if kind else []
    if len(grids) != 1:
        return {}
    place = grids[0]._topo.get_coord(grids[0].global_rank)
    return {_DEEPSPEED_AXES.get(axis, axis): number for axis, number in place._asdict().items()}
