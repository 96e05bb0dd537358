"""The cost of open scopes for an allocation: scope_cost.py PROBE ROUNDS PAIRS

In each round, in turns: no scope is open, again none, one, and ten thousand; each time libbench_probe.so makes PAIRS
times a report of PyTorch's of 1 KiB and its release. Prints as JSON the processor's nanoseconds of a pair, in each
round, by the number of scopes; and the durations of a begin, a read and an end."""

import ctypes
import json
import sys
import time

import torch

import gpumem
import simulator  # noqa: F401  (the simulated card's profile)
from bench_alloc import NOWHERE, REPORT

OPEN = {"0": 0, "0 again": 0, "1": 1, "10000": 10_000}


def main():
    probe, rounds, pairs = ctypes.CDLL(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    probe.probe_report.argtypes = [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint8, ctypes.c_uint32
    ]
    probe.probe_report.restype = ctypes.c_double
    report = ctypes.cast(getattr(ctypes.CDLL(None), REPORT), ctypes.c_void_p)
    kept = torch.empty(1024, device="cuda")
    live = torch.cuda.memory_allocated()

    def cost():
        start = time.thread_time_ns()
        probe.probe_report(report, NOWHERE, live, 0, pairs)
        return (time.thread_time_ns() - start) / pairs

    def timed(work, scopes):
        start = time.thread_time_ns()
        for scope in scopes:
            work(scope)
        return (time.thread_time_ns() - start) / len(scopes)

    cost()
    found = {name: [] for name in OPEN}
    order = list(OPEN)
    calls = {"begin": [], "read": [], "end": []}
    for turn in range(rounds):
        for name in order[turn % 4 :] + order[: turn % 4]:
            number = OPEN[name]
            scopes = [gpumem.scope("many") for _ in range(number)]
            begin = timed(gpumem.Scope.begin, scopes or [gpumem.scope()])
            found[name].append(cost())
            peaks = {scope.peak for scope in scopes}
            assert peaks <= {1024}, peaks
            if number > 1:
                calls["begin"].append(begin)
                calls["read"].append(timed(lambda scope: scope.device(0), scopes))
                calls["end"].append(timed(gpumem.Scope.end, scopes))
            for scope in scopes:
                scope.end()
    del kept
    print(json.dumps({"pairs": found, "calls": calls}))


if __name__ == "__main__":
    main()
