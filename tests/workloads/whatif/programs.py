"""PyTorch programs that replays must equal: random ones, by a seed, and small trainings.

For each line of JSON on stdin, {"program", "settings", "card", "capture", "stop"}, a forked process runs the program
under these settings on a card of that size. It is recorded into the capture if one is named, with PyTorch's own
history on if a snapshot is to be dumped at the end ("history": how), without calls of empty_cache if it
"keeps_cache". It prints one line of JSON: the figures of PyTorch's allocator at the end, or at the first failure
with `stop`. Settings are read by the process in which the allocator is set up, so PyTorch is imported once for all.

A program's decisions come from its seed, and never from addresses, figures or settings. A `tight` program, however,
drops half of its blocks when an allocation fails, and continues."""

import inspect
import json
import os
import random
import sys
import threading
import traceback
from contextlib import nullcontext

import states
import torch
import trainings
import trees

FIGURES = (
    "allocated_bytes.all.peak", "requested_bytes.all.peak", "active_bytes.all.peak", "inactive_split_bytes.all.peak",
    "reserved_bytes.all.peak", "reserved_bytes.all.current", "segment.all.peak", "segment.all.allocated",
    "num_alloc_retries", "num_ooms", "num_device_alloc", "num_device_free", "num_sync_all_streams",
)  # fmt: skip
# Older releases raise any RuntimeError.
OutOfMemoryError = getattr(torch.cuda, "OutOfMemoryError", RuntimeError)


TRAININGS = {**trainings.ALL, **trees.ALL, **states.ALL}
FILES = [module.__file__ for module in (trainings, trees, states)]


# In older releases: `None` before 2.5, which has no pools; the decisions about them are made nevertheless.
POOL = getattr(torch.cuda, "MemPool", None)
# The options of a pool's constructor.
POOL_OPTIONS = set(inspect.signature(POOL.__init__).parameters) if POOL else set()


class Failed(Exception):
    """The first failure of a program that is to stop there."""


def pool(**options):
    """A pool, with those of the options that this release supports."""
    return POOL(**{name: value for name, value in options.items() if name in POOL_OPTIONS}) if POOL else None


def from_pool(used):
    return torch.cuda.use_mem_pool(used) if used else nullcontext()


class Program:
    """A random one. Its features come from its seed, too. `wide` ones do more: threads, settings at run time, graphs with
    several streams, pools that are not split or serve when memory runs out. `restored` ones also set private pools back to
    states that were taken of them."""

    def __init__(self, seed, tight, stop, wide=False, restored=False):
        self.random, self.tight, self.stop = random.Random(seed), tight, stop
        some = self.random.random
        self.streams = [None] + [torch.cuda.Stream() for _ in range(self.random.randrange(4) if some() < 0.6 else 0)]
        self.pools = [pool() for _ in range(self.random.randrange(1, 3) if some() < 0.3 else 0)]
        self.wide = wide
        if wide and some() < 0.5:
            self.pools.append(pool(use_on_oom=some() < 0.5, no_split=some() < 0.5))
        # A capture that fails is not gone on with.
        self.uses, self.captures = some() < 0.5, some() < 0.25 and not tight
        if some() < 0.2:
            fraction = self.random.choice([0.05, 0.1, 0.5])
            torch.cuda.set_per_process_memory_fraction(0.5 if restored else fraction)
        self.most = self.random.choice([10, 40, 120])
        self.held, self.graphs, self.successes, self.failures = [], [], 0, 0
        self.private = [states.Pool(self) for _ in range(self.random.randrange(1, 3) if restored else 0)]

    def size(self):
        choose = self.random
        return choose.choice([
            choose.randrange(1, 600), choose.randrange(1, 1 << 20), choose.randrange(1 << 20, 10 << 20),
            choose.randrange(1, 40) << 19, choose.randrange(10 << 20, 60 << 20),
        ])  # fmt: skip

    def allocate(self):
        size, stream = self.size(), self.random.choice(self.streams)
        drawn = [self.random.choice(self.streams) for _ in range(self.random.choice([0, 0, 1, 2]))]
        with torch.cuda.stream(stream):
            block = self.block(size)
        if block is None:
            self.held = self.held[::2]
            return
        if self.uses:
            for other in drawn:
                block.record_stream(other or torch.cuda.default_stream())
        self.held.append(block)

    def block(self, size):
        """None: there is no memory for it."""
        try:
            block = torch.empty(size, dtype=torch.uint8, device="cuda")
        except OutOfMemoryError:
            self.fail()
            return None
        self.successes += 1
        return block

    def fail(self):
        self.failures += 1
        if self.stop or not self.tight:
            raise Failed from None

    def drop(self, to):
        while len(self.held) > to:
            self.held.pop(self.random.randrange(len(self.held)))

    def step(self):
        """What a training does: many blocks, freed in reverse."""
        before = len(self.held)
        for _ in range(self.random.randrange(5, 30)):
            self.allocate()
        while len(self.held) > before:
            self.held.pop()

    def capture(self):
        graph = torch.cuda.CUDAGraph()
        shared = self.graphs and self.random.random() < 0.5
        with torch.cuda.graph(graph, pool=self.graphs[-1][0].pool() if shared else None):
            kept = [torch.empty(self.random.randrange(1, 4 << 20), dtype=torch.uint8, device="cuda") for _ in range(5)]
            kept[0].add_(1)
            del kept[2:4]
        self.successes += len(kept) + 2
        self.graphs.append((graph, kept))

    def run(self, operations=250):
        for _ in range(operations):
            which = self.random.random()
            if which < 0.75:
                self.allocate()
                self.drop(self.random.randrange(1, self.most))
            elif which < 0.82:
                self.step()
            elif which < 0.9 and self.pools:
                with from_pool(self.random.choice(self.pools)):
                    for _ in range(self.random.randrange(1, 5)):
                        self.allocate()
            elif which < 0.92 and self.captures:
                self.capture()
            elif which < 0.93 and self.graphs:
                self.graphs.pop(self.random.randrange(len(self.graphs)))
            elif which < 0.94 and self.pools:
                self.held.clear()
                self.pools.pop()
            elif which < 0.945:
                torch.cuda.empty_cache()
            elif which < 0.96:
                self.held.clear()
            elif which < 0.985 and self.private:
                for _ in range(10):
                    self.random.choice(self.private).step()
            elif self.wide:
                self.random.choice([self.thread, self.set, self.fraction, self.branches])()

    def thread(self):
        """Another thread allocates, and what it made is freed here."""
        failures = []

        def work():
            try:
                for _ in range(10):
                    self.allocate()
            except Failed as error:
                failures.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        if failures:
            raise Failed

    def set(self):
        """Settings at run time."""
        trainings.set_settings(self.random.choice([
            "expandable_segments:True", "expandable_segments:False", "roundup_power2_divisions:4", "max_split_size_mb:40",
            "roundup_power2_divisions:1", "garbage_collection_threshold:0.7",
        ]))  # fmt: skip

    def fraction(self):
        torch.cuda.set_per_process_memory_fraction(self.random.choice([0.2, 0.5, 1.0]))

    def branches(self):
        """A graph whose blocks are used on a second stream, and freed in the capture."""
        sizes = [self.random.randrange(1, 8 << 20) for _ in range(6)]
        if not self.captures:
            return
        graph, side, kept = torch.cuda.CUDAGraph(), torch.cuda.Stream(), []
        with torch.cuda.graph(graph):
            for size in sizes:
                block = torch.empty(size, dtype=torch.uint8, device="cuda")
                side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(side):
                    block.add_(1)
                    kept.append(torch.empty(size // 2 + 1, dtype=torch.uint8, device="cuda"))
                block.record_stream(side)
                del block
            torch.cuda.current_stream().wait_stream(side)
        self.successes += 2 * len(sizes)
        self.graphs.append((graph, kept))


def figures(request, **more):
    if request.get("snapshot"):
        torch.cuda.memory._dump_snapshot(request["snapshot"])
    stats = torch.cuda.memory_stats()
    free, total = torch.cuda.mem_get_info()
    foreign = total - free - stats.get("reserved_bytes.all.current", 0)
    return {"figures": {name: stats.get(name, 0) for name in FIGURES}, "foreign": foreign, **more}


def run(request):
    os.environ["PYTORCH_ALLOC_CONF"] = os.environ["PYTORCH_CUDA_ALLOC_CONF"] = request["settings"]
    os.environ["GPUMEM_SIM_MEMORY"] = str(request["card"])
    if request.get("capture"):
        os.environ["GPUMEM_OUTPUT"] = request["capture"]
    torch.cuda.init()
    torch.cuda.synchronize()
    if request.get("snapshot"):
        torch.cuda.memory._record_memory_history(stacks="python", **request.get("history", {}))
    if request.get("keeps_cache"):
        torch.cuda.empty_cache = lambda: None
    kind, _, seed = request["program"].partition(":")
    if kind in TRAININGS:
        random.seed(0)
        failed, then = None, []
        # Before the exception drops what the program holds. 1.12 has no such thing.
        if hasattr(torch._C, "_cuda_attach_out_of_memory_observer"):
            torch._C._cuda_attach_out_of_memory_observer(lambda *_: then.append(figures(request)))
        try:
            TRAININGS[kind]()
        except RuntimeError as error:
            # A tensor's, or code of kernels; or a pool that has lost a segment.
            assert "out of memory" in str(error) or "could not find" in str(error), error
            frames = traceback.extract_tb(error.__traceback__)
            failed = next(frame.lineno for frame in reversed(frames) if frame.filename in FILES)
        return {**(then[-1] if failed and then else figures(request)), "failed": failed}
    restored = kind == "restored"
    program = Program(int(seed), kind == "tight", request.get("stop", False), kind == "wide" or restored, restored)
    try:
        program.run()
    except Failed:
        pass
    except OutOfMemoryError:
        assert program.captures and request.get("stop")
        program.failures += 1
    except RuntimeError as error:
        # 2.7 has no pools in expandable segments; 2.9 fails where a pool that serves all is no longer used.
        refusals = ("currently support expandable_segments", "use_count > 0 INTERNAL ASSERT")
        if not any(refusal in str(error) for refusal in refusals):
            raise
        return figures(request, refused=True)
    counts = {"successes": program.successes, "failures": program.failures}
    if not (program.failures and request.get("stop")):
        # As at the process's end, which a capture has, too. It may make the greatest inactive_split_bytes.
        del program
    return figures(request, **counts)


def main():
    for line in sys.stdin:
        request = json.loads(line)
        if request["program"] in trees.ALL:
            trees.load()
        child = os.fork()
        if child == 0:
            print(json.dumps(run(request)), flush=True)
            if not request.get("capture"):
                # No more can be recorded; PyTorch's own end takes as long as the program, and aborts where a pool could
                # not be restored.
                os._exit(0)
            sys.exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            print(json.dumps({"status": status}), flush=True)


if __name__ == "__main__":
    main()
