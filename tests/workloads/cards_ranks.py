"""cards_ranks.py PLAN: starts one process for each rank of the plan, all on the simulated cards of this
run, and lets them wait until NVML has been read. A plan is JSON: for each rank the list of its steps,
[device, MiB]: the primary context of the device, and a block on it where MiB is not 0. Only the driver is
used. Prints each rank's NVML figures by card. All wait before any of them ends, so that none sees another's
end."""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from ctypes import byref, c_size_t, c_uint64, c_void_p

import nvml_figures


def rank(steps, cards):
    """One rank: its steps, then a line, then it waits for a line."""
    cuda = ctypes.CDLL("libcuda.so.1")

    def must(name, *arguments):
        got = getattr(cuda, name)(*arguments)
        if got != 0:
            raise RuntimeError(f"{name} gave {got}")

    must("cuInit", 0)
    for device, mib in steps:
        context, pointer = c_void_p(), c_uint64()
        must("cuDevicePrimaryCtxRetain", byref(context), device)
        must("cuCtxSetCurrent", context)
        if mib:
            must("cuMemAlloc_v2", byref(pointer), c_size_t(mib << 20))
    print("ready", flush=True)
    sys.stdin.readline()
    time.sleep(0.4)  # the recorder reads NVML every 100 ms
    print(json.dumps([nvml_figures.reading(card) for card in range(cards)]), flush=True)
    time.sleep(60)


def main():
    plan = json.loads(sys.argv[1])
    if len(sys.argv) > 2:
        return rank(plan[int(os.environ["RANK"])], int(sys.argv[2]))
    cards = 1 + max(device for steps in plan for device, _ in steps)
    ranks = [
        subprocess.Popen(
            [sys.executable, __file__, sys.argv[1], str(cards)], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, "RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": str(len(plan))},
        )
        for number in range(len(plan))
    ]

    def lines():
        return [process.stdout.readline().strip() for process in ranks]

    def go():
        for process in ranks:
            process.stdin.write("\n")
            process.stdin.flush()

    assert lines() == ["ready"] * len(ranks)
    go()
    print(f"READINGS [{','.join(lines())}]", flush=True)
    for process in ranks:
        process.send_signal(signal.SIGSTOP)
    for process in ranks:
        process.kill()
    return 0 if {process.wait() for process in ranks} == {-signal.SIGKILL} else 1


if __name__ == "__main__":
    sys.exit(main())
