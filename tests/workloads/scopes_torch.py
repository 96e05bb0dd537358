"""Scopes of the gpumem package in PyTorch, beside PyTorch's own counters: `hooks` where the program is recorded,
`sampled` where not. Prints "same" at the end."""

import asyncio
import gc
import os
import sys
import threading
import warnings

import torch

import gpumem
import simulator  # noqa: F401  (the simulated card's profile)

SOURCE = sys.argv[1]
EXACT = SOURCE == "hooks"
KIB, MIB = 1 << 10, 1 << 20


def tensor(size, device=0):
    return torch.empty(size, dtype=torch.uint8, device=f"cuda:{device}")


def allocated():
    return torch.cuda.memory_allocated()


def blocks():
    """A region's peak is PyTorch's own, reset where the region begins; a scope does not change it."""
    held = [tensor(3000)]
    for size in (100, 512, 513, MIB, 20 * MIB + 1):
        before = allocated()
        torch.cuda.reset_peak_memory_stats()
        with gpumem.scope("block") as scope:
            held.append(tensor(size))
            gone = tensor(2 * size)
            del gone
        most = torch.cuda.max_memory_allocated()
        assert scope.peak == most - before, (size, scope, most - before)
        assert scope.used == scope.change == allocated() - before
        frozen = scope.used, scope.peak, repr(scope), scope.device(0)
        again = tensor(50 * MIB)
        scope.end()
        assert (scope.used, scope.peak, repr(scope), scope.device(0)) == frozen, "frozen"
        assert torch.cuda.max_memory_allocated() == max(most, allocated())
        del again
    with gpumem.scope("falls") as scope:
        size = allocated()
        held.clear()
    assert (scope.used, scope.peak) == (0, 0) and scope.change == allocated() - size < 0
    assert "'falls': tensors on GPU 0 -" in repr(scope) and "peak +0 B" in repr(scope), scope


def nested():
    """An inner scope, or PyTorch's own reset, does not reset an outer peak. Samples need PyTorch's peak to be no
    higher than the outer one's."""
    torch.cuda.reset_peak_memory_stats()
    with gpumem.scope("outer") as outer:
        gone = tensor(8 * MIB)
        del gone
        if EXACT:
            torch.cuda.reset_peak_memory_stats()
        with gpumem.scope("inner") as inner:
            kept = tensor(MIB)
        assert inner.peak == inner.used == MIB
    assert (outer.peak, outer.used) == (8 * MIB, MIB), outer
    late = gpumem.scope("overlaps")
    late.begin()
    try:
        late.begin()
    except RuntimeError as error:
        assert "reset()" in str(error)
    late.reset()
    del kept
    late.end()
    assert (late.change, late.used, late.peak) == (-MIB, 0, 0)
    late.begin()
    kept = tensor(512)
    assert "so far" in repr(late) and late.used == 512
    late.end()
    assert late.used == 512 and "so far" not in repr(late)
    del kept


def functions():
    """Each kind of function, also where it raises."""

    @gpumem.scope
    def plain(size):
        """What it does."""
        if size < 0:
            raise KeyError(size)
        return tensor(size)

    assert plain.__doc__ == "What it does." and "not begun" in repr(plain.scope)
    kept = plain(1024)
    assert plain.scope.used == 1024 and plain.scope.name.endswith("functions.<locals>.plain")
    try:
        plain(-1)
    except KeyError:
        assert plain.scope.used == 0

    @gpumem.scope("steps")
    def steps(size):
        got = None
        while got != "enough":
            got = yield tensor(size)
        return "done"

    def all_steps():
        assert (yield from steps(2048)) == "done"

    running = all_steps()
    held = [next(running), running.send("more")]
    assert "not begun" in repr(steps.scope)
    assert next(running, None) is not None
    try:
        running.send("enough")
    except StopIteration:
        pass
    assert steps.scope.used == 4096 and steps.scope.name == "steps"

    @gpumem.scope("waits")
    async def waits(size):
        kept = tensor(size)
        await asyncio.sleep(0)
        return kept

    @gpumem.scope("flows")
    async def flows(size):
        for _ in range(3):
            got = yield tensor(size)
            assert got in (None, "sent")

    async def run():
        held.extend(await asyncio.gather(waits(512), waits(1024)))
        async for one in flows(512):
            held.append(one)
        half = flows(512)
        await half.asend(None)
        await half.asend("sent")
        await half.aclose()

    asyncio.run(run())
    # The one that ended last had begun last, when the other one had its tensor.
    assert waits.scope.used == 1024, waits.scope
    assert flows.scope.name == "flows" and flows.scope.used in (0, 512, 1024)
    del kept, held


def threads():
    """Begun on one thread and ended on another; many at once."""
    scope = gpumem.scope("threads").begin()
    before = allocated()
    kept = []

    def work():
        own = gpumem.scope("own").begin()
        kept.append(tensor(MIB))
        own.end()
        assert own.used >= MIB

    running = [threading.Thread(target=work) for _ in range(8)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    end = threading.Thread(target=scope.end)
    end.start()
    end.join()
    assert scope.used == scope.peak == 8 * MIB == allocated() - before


def devices():
    """A scope reports the device that was current when it began or that is named, and also each other one."""
    with gpumem.scope("both") as both, gpumem.scope("one", device=1) as one:
        kept = tensor(MIB), tensor(4 * MIB, 1)
    with torch.cuda.device(1), gpumem.scope("there") as there:
        more = tensor(512, 1)
    assert (both.used, one.used, there.used) == (MIB, 4 * MIB, 512)
    assert both.device(1).tensor.used == 4 * MIB and both.device(0).tensor.used == MIB
    assert both.devices() == [0, 1] and "GPU 1 +512 B" in repr(there), (both.devices(), there)
    if EXACT:
        assert both.device(1).tensor[3:] == (1, 0) and both.device(1).driver.used == 20 * MIB
    del kept, more


def processes():
    """A child has none of its parent's scopes."""
    scope = gpumem.scope("parent").begin()
    child = os.fork()
    if child == 0:
        said = scope.source, scope.used, scope.peak
        scope.end()
        os._exit(0 if said == (scope.source, scope.used, scope.peak) == ("none", 0, 0) else 9)
    assert os.waitpid(child, 0)[1] == 0
    kept = tensor(MIB)
    scope.end()
    assert scope.used == MIB
    del kept


def what_is_live():
    """The snapshot agrees with the counters."""
    kept = [tensor(MIB), tensor(700, 1), torch.empty(1000, pin_memory=True)]
    snapshot = gpumem.snapshot()
    for device in (0, 1):
        counters = gpumem.counters(device)
        assert counters.tensor.live_bytes == torch.cuda.memory_allocated(device)
        for level in ("tensor", "driver", "host"):
            assert snapshot.total(level, device) == getattr(counters, level).live_bytes, (level, device)
    (own,) = [row for row in snapshot if (row.level, row.device) == ("tensor", 1) and row.bytes == 1024]
    assert own.file.endswith("scopes_torch.py") and own.function == "tensor" and own.blocks == 1
    try:
        import pandas  # noqa: F401
    except ImportError:
        try:
            snapshot.to_frame()
        except ImportError as error:
            assert "pandas" in str(error)
    else:
        assert list(snapshot.to_frame().columns) == list(own._fields)
    del kept


def main():
    early = gpumem.scope("early").begin()
    assert not gpumem.recording() and early.used == 0
    over = gpumem.scope("over")
    with over:
        pass
    first = tensor(512)
    assert early.used == 512 and early.source == SOURCE and over.used == 0, early
    tensor(512, 1)
    blocks()
    nested()
    functions()
    threads()
    devices()
    if EXACT:
        processes()
        what_is_live()
        assert gpumem.mark("here") and gpumem.step()
        many = [gpumem.scope(str(number)).begin() for number in range(100)]
        del many
    else:
        assert gpumem.snapshot() == [] and not gpumem.mark("here") and not gpumem.step()
    early.end()
    assert early.used == allocated() and early.source == SOURCE
    del first
    gc.collect()


with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    main()
told = [str(warning.message) for warning in warned if "gpumem" in str(warning.message)]
assert len(told) == (0 if EXACT else 1), told
print("same")
