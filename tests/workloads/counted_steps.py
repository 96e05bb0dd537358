"""counted_steps.py N: trains scripts/bench's transformer under callgrind, which counts N steps of it once the caches that
it simulates are warm."""

import gc
import os
import subprocess
import sys

import torch

import bench_alloc


def callgrind(*order):
    """Orders callgrind, from a process that nothing is preloaded into."""
    plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    subprocess.run(["callgrind_control", *order, str(os.getpid())], env=plain, stdout=subprocess.DEVNULL, check=True)


def main():
    torch.set_num_threads(1)
    training = bench_alloc.transformer()

    def steps(count):
        for _ in range(count):
            training.step()
            torch.cuda.synchronize()

    # All of them are called from one line: otherwise the counted ones' stacks would be new to the recorder.
    for count, order in [(20, ["-i", "on"]), (3, ["-z"]), (int(sys.argv[1]), ["-d"])]:
        steps(count)
        if count == 20:
            gc.collect()
            gc.freeze()
            gc.disable()
        callgrind(*order)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
