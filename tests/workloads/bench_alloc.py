"""One configuration of scripts/bench, as a server: reads one command per line, answers with a JSON line.

    loop N M         allocate 1 KiB that PyTorch has cached, and free it, N times, under M nested modules;
                     nanoseconds of each pair, the median of twenty parts
    depth M          the frames under M nested modules: [Python's, native ones]
    step KIND N      training steps of a transformer or a conv net, N of them; nanoseconds of each step, the median
    allocations KIND how many tensors one such step allocates
    parts N M        the cost of the parts of an event under M nested modules: nanoseconds by name
    threads T D N    report a block and its release, N times in each of T threads at once, thread t on device
                     t modulo D; [processor nanoseconds, elapsed nanoseconds] of a pair
    allocating L T D N  as threads, but each allocates and frees a tensor; L is the library of bench_threads.cpp
    churn FIRST N    report a block and its release, N times, each under a new Python stack and a new native stack
    driver N         cuMemAlloc and cuMemFree, and a physical block that is created, mapped, unmapped and
                     released, N times; nanoseconds of each pair and of each block, medians
    pairs KIND T N   cuMemAlloc and cuMemFree (KIND plain), or the same of the default pool (KIND async),
                     N times in each of T threads at once; results as for threads
    memory           this process's resident KiB by kind; `highest` is the most since the last such command

    bench_alloc.py off|python|all PROBE CAPTURE

The first argument sets PyTorch's own recorder. PROBE is libbench_probe.so, whose own capture
goes to CAPTURE. The allocations are made at the depth of a real training: the Python functions and the
nn.Modules below are on the stack."""

import ctypes
import gc
import json
import os
import statistics
import sys
import threading
import time

import torch
from torch import nn

import many_stacks
import winds_up  # noqa: F401
from train import Block

REPORT = "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"
# A loop is timed in this many parts, so that other work on the machine affects only a few of them.
LOOPS = 20
# Where the reported blocks seem to lie: the simulator hands out nothing there.
NOWHERE = 0x100_0000_0000


class Innermost(nn.Module):
    """Calls what it is given."""

    def forward(self, work):
        return work()


class Layer(nn.Module):
    """One more module around another: Python frames and C++ between them, as in a model."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, work):
        return self.inner(work)


def nested(modules, work):
    """Runs `work` under `modules` nested modules."""
    model = Innermost()
    for _ in range(modules - 1):
        model = Layer(model)
    return model(work)


class ConvNet(nn.Module):
    """Three convolutions with batch norms, as residual networks have them."""

    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, 10),
        )

    def forward(self, images):
        return self.layers(images)


class Training:
    """Trains a model with Adam, step by step."""

    def __init__(self, model, *shape):
        self.model, self.shape = model.cuda(), shape
        self.optimizer = torch.optim.Adam(model.parameters())

    def step(self):
        self.optimizer.zero_grad()
        self.model(torch.randn(*self.shape, device="cuda")).sum().backward()
        self.optimizer.step()


def transformer():
    return Training(nn.Sequential(*(Block(128, 4) for _ in range(4))), 8, 64, 128)


def conv():
    return Training(ConvNet(32), 8, 3, 32, 32)


def at_once(threads, count, work):
    """What `work(number, times)` takes where threads do it at once: nanoseconds of the processor's, and passed, of
    each time."""
    ready, spent, ends = threading.Barrier(threads), [], []

    def run(number):
        nested(9, lambda: work(number, 100))  # its stacks are known by then
        ready.wait()
        began, used = time.perf_counter_ns(), time.thread_time_ns()
        nested(9, lambda: work(number, count))
        spent.append(time.thread_time_ns() - used)
        ends.append((began, time.perf_counter_ns()))

    started = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    passed = max(end for _, end in ends) - min(begin for begin, _ in ends)
    return [sum(spent) / (threads * count), passed / (threads * count)]


class Bench:
    """The commands."""

    def __init__(self, probe, capture):
        self.trainings = {"transformer": transformer(), "conv": conv()}
        for training in self.trainings.values():
            for _ in range(3):
                training.step()
        self.churning = many_stacks.caller(self.report_from)
        self.probe = ctypes.CDLL(probe)
        for name in ("clock", "walk", "unwind", "take", "write", "report"):
            getattr(self.probe, f"probe_{name}").restype = ctypes.c_double
        self.probe.probe_depth.restype = ctypes.c_uint64
        self.probe.probe_report.argtypes = [
            ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint8, ctypes.c_uint32,
        ]
        self.probe.probe_report_from.argtypes = [
            ctypes.c_uint32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64,
        ]
        if self.probe.probe_open(os.fsencode(capture)) != 0:
            raise RuntimeError(f"cannot open {capture}")
        # The hook where the library is preloaded, otherwise the function that it would call.
        own = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libc10.so"))
        self.alone = ctypes.cast(own[REPORT], ctypes.c_void_p)
        everywhere = ctypes.CDLL(None)
        hook = everywhere[REPORT] if hasattr(everywhere, REPORT) else own[REPORT]
        self.hook = ctypes.cast(hook, ctypes.c_void_p)

    def loop(self, count, modules):
        def work():
            empty, device = torch.empty, torch.device("cuda")
            times = []
            for _ in range(LOOPS):
                began = time.perf_counter_ns()
                for _ in range(count // LOOPS):
                    kept = empty(256, device=device)
                    del kept
                times.append((time.perf_counter_ns() - began) / (count // LOOPS))
            return statistics.median(times)

        return nested(modules, work)

    def depth(self, modules):
        both = nested(modules, self.probe.probe_depth)
        return [both & 0xFFFF_FFFF, both >> 32]

    def step(self, kind, count):
        training = self.trainings[kind]
        times = []
        for _ in range(count):
            began = time.perf_counter_ns()
            training.step()
            torch.cuda.synchronize()
            times.append(time.perf_counter_ns() - began)
        return statistics.median(times)

    def allocations(self, kind):
        before = torch.cuda.memory_stats()["allocation.all.allocated"]
        self.trainings[kind].step()
        return torch.cuda.memory_stats()["allocation.all.allocated"] - before

    def parts(self, count, modules):
        probe, live = self.probe, torch.cuda.memory_allocated()

        def work():
            return {
                "clock": probe.probe_clock(count),
                "walk": probe.probe_walk(count),
                "unwind": probe.probe_unwind(count),
                "mixed": probe.probe_take(0, count),
                "python": probe.probe_take(1, count),
                "native": probe.probe_take(2, count),
                "write": probe.probe_write(count),
                "alone": probe.probe_report(self.alone, NOWHERE, live, 0, count),
                "whole": probe.probe_report(self.hook, NOWHERE, live, 0, count),
            }

        return nested(modules, work)

    def threads(self, threads, devices, count):
        live = torch.cuda.memory_allocated()

        def report(number, times):
            device = number % devices
            counted = live if device == 0 else 0
            self.probe.probe_report(self.hook, NOWHERE + number * 0x1000, counted, device, times)

        return at_once(threads, count, report)

    def allocating(self, library, threads, devices, count):
        make_and_drop = ctypes.CDLL(library).make_and_drop
        return at_once(threads, count, lambda number, times: make_and_drop(number % devices, times))

    def report_from(self, number):
        self.probe.probe_report_from(number, self.hook, NOWHERE, 0)

    def churn(self, first, count):
        for number in range(first, first + count):
            self.churning(number)

    def driver(self, count):
        cuda = ctypes.CDLL("libcuda.so.1")
        at, handle, size = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_size_t(2 << 20)
        # A pinned allocation on device 0: CUmemAllocationProp.
        wanted = (ctypes.c_uint32 * 8)(1, 0, 1, 0)
        reserved = ctypes.c_uint64()

        def call(name, *arguments):
            result = getattr(cuda, name)(*arguments)
            if result != 0:
                raise RuntimeError(f"{name}: {result}")

        def pair():
            call("cuMemAlloc_v2", ctypes.byref(at), size)
            call("cuMemFree_v2", at)

        def block():
            call("cuMemCreate", ctypes.byref(handle), size, wanted, ctypes.c_uint64(0))
            call("cuMemMap", reserved, size, ctypes.c_size_t(0), handle, ctypes.c_uint64(0))
            call("cuMemUnmap", reserved, size)
            call("cuMemRelease", handle)

        def timed(work):
            times = []
            for _ in range(count):
                began = time.perf_counter_ns()
                work()
                times.append(time.perf_counter_ns() - began)
            return statistics.median(times)

        call("cuMemAddressReserve", ctypes.byref(reserved), size, ctypes.c_size_t(0), ctypes.c_uint64(0), ctypes.c_uint64(0))
        taken = {"pair": timed(pair), "block": timed(block)}
        call("cuMemAddressFree", reserved, size)
        return taken

    def pairs(self, kind, threads, count):
        cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
        names, probe = {
            "plain": (("cuMemAlloc_v2", "cuMemFree_v2"), self.probe.probe_pairs),
            "async": (("cuMemAllocAsync", "cuMemFreeAsync"), self.probe.probe_pairs_async),
        }[kind]
        functions = [ctypes.cast(cuda[name], ctypes.c_void_p) for name in names]
        if cuda.cuCtxGetCurrent(ctypes.byref(context)) != 0:
            raise RuntimeError("no context")

        failed = []

        def work(number, times):
            failed.append(cuda.cuCtxSetCurrent(context) or probe(*functions, times))

        taken = at_once(threads, count, work)
        if any(failed):
            raise RuntimeError(f"{names}: {failed}")
        return taken

    def memory(self):
        gc.collect()
        with open("/proc/self/status") as status:
            lines = [line.split() for line in status]
        with open("/proc/self/clear_refs", "w") as reset:
            reset.write("5")  # the highest figure begins anew
        kinds = {"RssAnon:": "private", "RssFile:": "files", "RssShmem:": "ring", "VmHWM:": "highest"}
        found = {kinds[words[0]]: int(words[1]) for words in lines if words[0] in kinds}
        return {**found, "own_files": resident("libgpumem.so")}


def resident(*ends):
    """Resident KiB of the mapped files whose paths end so."""
    total, wanted = 0, False
    with open("/proc/self/smaps") as maps:
        for line in maps:
            words = line.split()
            if not words[0].endswith(":"):
                wanted = len(words) > 5 and words[-1].endswith(ends)
            elif wanted and words[0] == "Rss:":
                total += int(words[1])
    return total


def main():
    recorder, probe, capture = sys.argv[1:]
    bench = Bench(probe, capture)
    if recorder != "off":
        torch.cuda.memory._record_memory_history(stacks=recorder, max_entries=100_000)
        bench.loop(60_000, 9)  # until its history is full, as it soon is in a training
    bench.loop(1000, 9)
    for line in sys.stdin:
        command, *words = line.split()
        arguments = [int(word) if word.isdigit() else word for word in words]
        print(json.dumps(getattr(bench, command)(*arguments)), flush=True)


if __name__ == "__main__":
    main()
