"""A program of categories.py under torch.profiler: the categories in its memory profile, beside the framework's own
lists, at the end of each forward and of each step but the first forward, when the lists are not known yet.

    profiler_categories.py PROGRAM > moments.jsonl

One line per moment, in the order of gpumem's marks. Of a block: address, bytes, and the profiler's category. Only
CPU activities are profiled: they include allocations on the card."""

import gc
import json
import sys

import torch

# What the programs import when they first need it stays out of the profile.
import torch._dynamo.backends.debugging  # noqa: F401
import torch.distributed.fsdp  # noqa: F401
import torch.nn.parallel  # noqa: F401
import torch.testing._internal.distributed.fake_pg  # noqa: F401
from torch.profiler import ProfilerActivity, profile, record_function
from torch.profiler._memory_profiler import Action, TensorKey

import categories
import gpumem

NAME = "moment of the program: "
SEEN = []
OWNERS = []


def moment(kind, saved=()):
    """A moment for both: a mark of gpumem's, and an event of the profiler's."""
    with record_function(f"{NAME}{len(SEEN)}"):
        gpumem.mark(kind)
        SEEN.append({"kind": kind, "saved": sorted(set(saved)), **categories.lists(*OWNERS)})


def tell(_program, models, optimizers, more=(), saved=()):
    OWNERS[:] = models, optimizers, more
    moment("forward" if saved else "step", saved)


def backward(tensor, *arguments, run=torch.Tensor.backward, **options):
    if OWNERS and SEEN[-1]["kind"] == "step":
        moment("forward")
    return run(tensor, *arguments, **options)


def described(profiled):
    """At each moment, by its number: the blocks on the card that are live."""
    memory = profiled._memory_profile()
    versions, blocks, events = {}, {}, []
    for event in memory._op_tree.dfs():
        fields = event.typed[1]
        if event.name.startswith(NAME):
            events.append((event.start_time_ns, 2, int(event.name[len(NAME) :]), None))
        elif hasattr(fields, "alloc_size") and fields.device.type == "cuda":
            events.append((event.start_time_ns, 0, fields, TensorKey.from_allocation(fields)))
    for time, action, (key, version), _ in memory.timeline:
        if action == Action.INCREMENT_VERSION and isinstance(key, TensorKey):
            events.append((time, 1, key, version + 1))
    for _, kind, what, more in sorted(events, key=lambda event: event[:2]):
        if kind == 1:
            versions[what] = more
        elif kind == 2:
            yield what, [
                (ptr, size, category.name if category else None)
                for ptr, (size, key) in blocks.items()
                for category in [key and memory._categories.get(key, versions.get(key, 0))]
            ]
        elif what.alloc_size > 0:
            blocks[what.ptr] = what.alloc_size, more
        else:
            blocks.pop(what.ptr, None)


def main():
    categories.tell = tell
    torch.Tensor.backward = backward
    # gpumem's search for modules looks through all objects that are not frozen: a million calls of Python's in a profile.
    gc.collect()
    gc.freeze()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, record_shapes=True, with_stack=True) as profiled:
        getattr(categories, sys.argv[1])()
    for number, blocks in described(profiled):
        SEEN[number]["blocks"] = blocks
    for seen in SEEN:
        print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    main()
