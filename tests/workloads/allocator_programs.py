"""Programs that use PyTorch's caching allocator in each way, at random but the same in every run.

    allocator_programs.py PROGRAM FILE

Writes PyTorch's own trace of the allocator to FILE (2.x), or the program's own log (1.12), and its calls."""

import json
import random
import sys

import torch
import winds_up  # noqa: F401

LARGEST = 4 << 20


def block(size):
    return torch.empty(size, device="cuda", dtype=torch.uint8)


def drop_some(keep, most):
    while len(keep) > random.randrange(5, most):
        keep.pop(random.randrange(len(keep)))


def train(calls):
    layers = [torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 256)]
    model = torch.nn.Sequential(*layers, torch.nn.LayerNorm(256)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(6):
        model(torch.empty(random.randrange(1, 3000), 256, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == 3:
            torch.cuda.empty_cache()
            calls.append(["EMPTY_CACHE"])


def streams(calls, did=None):
    all_streams = [torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream()]
    keep = []
    for _ in range(800):
        own = random.choice(all_streams)
        with torch.cuda.stream(own):
            size = random.choice([random.randrange(1, 4000), random.randrange(4000, LARGEST)])
            try:
                keep.append(block(size))
            except torch.cuda.OutOfMemoryError:
                keep = keep[::2]
                continue
        if did is not None:
            did.append(["alloc", keep[-1].data_ptr(), size, own.cuda_stream])
        for _ in range(random.choice([0, 0, 1, 2])):
            other = random.choice(all_streams)
            keep[-1].record_stream(other)
            calls.append(["RECORD_STREAM", keep[-1].data_ptr(), other.cuda_stream])
        drop_some(keep, 60)


def full(calls):
    """On a card that is too small."""
    streams(calls)


def pools(calls):
    keep, made = [], [torch.cuda.MemPool(), torch.cuda.MemPool()]
    for _ in range(100):
        for pool in (None, *made):
            if pool is None:
                keep.append(block(random.randrange(1, LARGEST)))
                continue
            calls.append(["POOL_BEGIN", list(pool.id)])
            with torch.cuda.use_mem_pool(pool):
                keep.extend(block(random.randrange(1, LARGEST)) for _ in range(2))
            calls.append(["POOL_END", list(pool.id)])
        drop_some(keep, 40)


def graphs(calls):
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 256)).cuda()
    with torch.cuda.stream(torch.cuda.Stream()):
        for _ in range(3):
            model(torch.empty(64, 256, device="cuda")).sum().backward()
    model.zero_grad(set_to_none=True)
    shared, captured = torch.cuda.graph_pool_handle(), []
    for number in range(4):
        given = torch.empty(64 * (number + 1), 256, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=shared if number % 2 else None):
            model(given).sum().backward()
        # A graph's capture empties the cache before it begins.
        pool = list(graph.pool())
        calls.extend([["EMPTY_CACHE"], ["POOL_BEGIN", pool], ["CAPTURE_BEGIN"], ["CAPTURE_END"], ["POOL_END", pool]])
        captured.append((graph, given))
        keep = [block(random.randrange(1, LARGEST)) for _ in range(10)]
        del keep


def grow(pool, calls):
    calls.append(["POOL_BEGIN", list(pool)])
    torch._C._cuda_beginAllocateCurrentThreadToPool(0, pool)
    storages = [block(random.randrange(1, LARGEST)).untyped_storage() for _ in range(6)]
    torch._C._cuda_endAllocateToPool(0, pool)
    calls.append(["POOL_END", list(pool)])
    return storages


def checkpoints(calls):
    """A private pool is set back to states that were taken of it, as trees of CUDA graphs do it; one state can no longer be set."""
    pool, side, states, keep, taken = torch.cuda.graph_pool_handle(), torch.cuda.Stream(), [], [], 0
    for _ in range(40):
        with torch.cuda.stream(random.choice([None, side])):
            keep += grow(pool, calls)
        drop_some(keep, 30)
        if len(states) < 3 or random.random() < 0.3:
            live = [(storage.data_ptr(), storage.nbytes()) for storage in keep]
            states = [*states[-2:], (taken, torch._C._cuda_getCheckpointState(0, pool), live)]
            calls.append(["STATE", taken, list(pool)])
            taken += 1
            continue
        number, state, live = random.choice(states)
        back = [torch._C._construct_storage_from_data_pointer(at, torch.device("cuda", 0), size) for at, size in live]
        torch._C._cuda_setCheckpointPoolState(0, state, [of._cdata for of in keep], [of._cdata for of in back])
        calls += [["CHECKPOINT", number], ["CHECKPOINT_END", number, 0]]
        keep = back
    other = torch.cuda.graph_pool_handle()
    keep += grow(other, calls)
    state = torch._C._cuda_getCheckpointState(0, other)
    torch._C._cuda_releasePool(0, other)
    try:
        torch._C._cuda_setCheckpointPoolState(0, state, [], [])
    except RuntimeError:
        calls += [["STATE", taken, list(other)], ["CHECKPOINT", taken], ["CHECKPOINT_END", taken, 1]]


def main():
    program, path = sys.argv[1:]
    random.seed(17)
    torch.cuda.init()
    calls, did = [["FRACTION", 0.875]], []
    torch.cuda.set_per_process_memory_fraction(0.875)
    if torch.__version__.startswith("1."):
        streams(calls, did)
        torch.cuda.empty_cache()
        calls.append(["EMPTY_CACHE"])
        trace = did
    else:
        torch.cuda.memory._record_memory_history(max_entries=1 << 20, context=None)
        torch._C._accelerator_setAllocatorSettings("max_split_size_mb:64")
        calls.append(["SETTINGS", "max_split_size_mb:64"])
        globals()[program](calls)
        actions = ("alloc", "free_requested", "free_completed", "oom")
        entries = [e for e in torch.cuda.memory._snapshot()["device_traces"][0] if e["action"] in actions]
        trace = [[e["action"], e.get("addr"), e["size"], e["stream"], e["pool_id"]] for e in entries]
    with open(path, "w") as file:
        json.dump({"trace": trace, "calls": calls}, file)


main()
