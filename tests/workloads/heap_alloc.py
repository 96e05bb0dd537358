"""The cost that memray adds to an allocation of host memory, as a server for scripts/bench.

    off N, python N, native N   allocate 1 KiB and free it, N times, ten modules deep, while memray records
                                nothing, with Python stacks, or with native ones too; nanoseconds of
                                each pair

The modules are called as PyTorch's are, by three Python functions each; no PyTorch is needed."""

import json
import sys
import time

import memray


class Module:
    """Calls its inner module as torch.nn.Module does."""

    def __init__(self, inner=None):
        self.inner = inner

    def __call__(self, *arguments):
        return self.wrapped_call(*arguments)

    def wrapped_call(self, *arguments):
        return self.call(*arguments)

    def call(self, *arguments):
        return self.forward(*arguments)

    def forward(self, count):
        if self.inner is not None:
            return self.inner(count)
        began = time.perf_counter_ns()
        for _ in range(count):
            kept = bytearray(1024)  # more than Python's own pools give: it comes from malloc
            del kept
        return (time.perf_counter_ns() - began) / count


def main():
    module = Module()
    for _ in range(8):
        module = Module(module)
    for line in sys.stdin:
        how, count = line.split()
        if how == "off":
            answer = module(int(count))
        else:
            target = memray.FileDestination("/dev/null", overwrite=True)
            with memray.Tracker(destination=target, native_traces=how == "native"):
                answer = module(int(count))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
