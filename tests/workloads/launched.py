"""launched.py [--mib N] END [ARGUMENT]: takes N MiB of CUDA (0: makes no CUDA call) and ends in the given way: `exit
STATUS`; `kill SIGNAL` to itself; `signals`, which prints `ready`, then the name of each signal that it gets until
SIGUSR2, and then how many there were of each; `memfd COUNT` and `removed COUNT`: takes COUNT MiB more, one by one,
removes its ring if it has a name, and kills itself at once."""

import argparse
import ctypes
import os
import signal
import sys
from collections import Counter


def take(mib, count=1, device=0):
    """Blocks of device memory, kept for good."""
    cuda = ctypes.CDLL("libcuda.so.1")
    context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
    for name, *arguments in (
        ("cuInit", 0),
        ("cuDevicePrimaryCtxRetain", ctypes.byref(context), device),
        ("cuCtxSetCurrent", context),
        *[("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(mib << 20))] * count,
    ):
        got = getattr(cuda, name)(*arguments)
        if got != 0:
            sys.exit(f"{name} gave {got}")


def receive():
    """Counts the signals that come until SIGUSR2 does."""
    numbers = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2}
    # Blocked signals stay pending until they are read.
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    print("ready", flush=True)
    seen = Counter()
    while True:
        name = signal.Signals(signal.sigwait(numbers)).name
        if name == "SIGUSR2":
            break
        seen[name] += 1
        print(name, flush=True)
    print(dict(sorted(seen.items())), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mib", type=int, default=3)
    parser.add_argument("end", choices=("exit", "kill", "signals", "memfd", "removed"))
    parser.add_argument("argument", nargs="?", default="0")
    options = parser.parse_args()
    if options.mib:
        take(options.mib)
    if options.end == "signals":
        receive()
    elif options.end in ("memfd", "removed"):
        take(1, int(options.argument))
        with open("/proc/self/maps") as maps:
            rings = {line.split()[-1] for line in maps if "/gpumem-ring-" in line}
        for ring in rings:
            os.unlink(ring)
        assert len(rings) == (options.end == "removed")
        os.kill(os.getpid(), signal.SIGKILL)
    elif options.end == "kill":
        os.kill(os.getpid(), getattr(signal, options.argument))
    else:
        sys.exit(int(options.argument))


if __name__ == "__main__":
    main()
