"""Programs whose tensors are kept by functools, by asyncio or by a queue."""

from __future__ import annotations

from random import Random

from program import CULPRIT, HEAD, ROUND, Program, indented, kind, net, previous, rounds, sizes
from tensors import NEAR, NO_GRAPH, TENSORS


HEAD = HEAD + "import asyncio\nimport functools\nimport queue\n"


@kind
def method_cache(rng: Random) -> Program:
    """functools.lru_cache on a method, with more room than the program needs."""
    of, count = sizes(rng), rounds(rng)
    form = rng.choice(["{}", '{{"features": {}, "index": index}}', "({}, index)"])
    value = f'torch.full(({of.rows}, {of.dim}), float(index), device="cuda")'
    source = f"""{HEAD}class Store:
    def __init__(self):
        self.scale = 2.0
    @functools.lru_cache(maxsize=4096)
    def features(self, index):
        made = {value}{CULPRIT}
        return {form.format("made")}
def main():
    store = Store()
    for step in range(1000):
        {ROUND}
        store.features(step)
main()
"""
    fixes = {
        "cache_clear": [("maxsize=4096", "maxsize=1")], "drop": [("    @functools.lru_cache(maxsize=4096)\n", "")],
        "host": [('device="cuda")', 'device="cpu")')],
    }  # fmt: skip
    return Program(source, TENSORS | previous(count), NEAR, ("cache of Store.features",), fixes, NO_GRAPH, count)


@kind
def property_cache(rng: Random) -> Program:
    """functools.cached_property on the elements of a list."""
    of, count = sizes(rng), rounds(rng)
    name = rng.choice(["samples", "items"])
    source = f"""{HEAD}class Sample:
    def __init__(self, index):
        self.index = index
    @functools.cached_property
    def features(self):
        return torch.full(({of.rows}, {of.dim}), float(self.index), device="cuda"){CULPRIT}
{name} = [Sample(index) for index in range(1000)]
for sample in {name}:
    {ROUND}
    sample.features.sum()
"""
    fixes = {"drop": [("@functools.cached_property", "@property")], "host": [('device="cuda")', 'device="cpu")')]}
    # One property is all that is known after one round.
    causes = TENSORS | previous(count) | frozenset(["held"] if count == 1 else [])
    return Program(source, causes, NEAR, (name, "features"), fixes, NO_GRAPH, count)


def served(rng: Random, handle: str, start: str, of) -> str:
    """A program that calls `handle` of an event loop for each request."""
    return f"""{HEAD}{net(rng, of)}net = Net().cuda()
async def handle(step):
    {ROUND}
    x = {of.batch}{CULPRIT}
    with torch.no_grad():
        logits = torch.cat([net(x), x], 1){CULPRIT}
{indented(handle)}async def main():
    tasks = []
    async with asyncio.TaskGroup() as group:
        for step in range(1000):
            {start}
            await asyncio.sleep(0)
asyncio.run(main())
"""


@kind
def requests_that_wait(rng: Random) -> Program:
    """Many requests at once, each of which waits for something: nothing is wrong but their number."""
    of, count = sizes(rng), rng.choice([2, 4, 19])
    handle = "for _ in range(1000):\n    await asyncio.sleep(0)\nprint(logits.sum(), x.sum())\n"
    start = rng.choice(["group.create_task(handle(step))", "tasks.append(group.create_task(handle(step)))"])
    fixes = {"calls": [(start, "await handle(step)")]}
    return Program(
        served(rng, handle, start, of), frozenset(["held"]), frozenset(), ("handle",), fixes,
        NO_GRAPH | {"drop", "clone"}, count, is_correct=True,
    )  # fmt: skip


@kind
def results_of_tasks(rng: Random) -> Program:
    """A list of tasks, which keep their results."""
    of, count = sizes(rng), rounds(rng)
    start = "tasks.append(group.create_task(handle(step)))"
    fixes = {"drop": [(start, "group.create_task(handle(step))")], "host": [("return logits", "return logits.cpu()")]}
    return Program(
        served(rng, "return logits\n", start, of), TENSORS | previous(count), NEAR, ("tasks",), fixes, NO_GRAPH, count
    )


@kind
def queue_without_bound(rng: Random) -> Program:
    """A queue that is filled faster than it is emptied."""
    of, count = sizes(rng), rounds(rng)
    made = rng.choice(["queue.Queue()", "asyncio.Queue()", "queue.LifoQueue()"])
    waiting = rng.choice(["waiting", "requests"])
    source = f"""{HEAD}{waiting} = {made}
for step in range(1000):
    {ROUND}
    x = {of.batch}{CULPRIT}
    if {waiting}.full():
        {waiting}.get_nowait()
    {waiting}.put_nowait(x)
"""
    fixes = {
        "queue": [(made, made.replace("()", "(1)"))], "host": [(".put_nowait(x)", ".put_nowait(x.cpu())")],
    }  # fmt: skip
    return Program(source, TENSORS | previous(count), NEAR, (waiting,), fixes, NO_GRAPH, count)
