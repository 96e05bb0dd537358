"""A training, twice, then so many small tensors that a bounded capture's log of events goes round, then a smaller
training. It ends at once: by SIGKILL if asked to, and else so that what is live stays live.

The card is read after each of the two: what code takes is found by a reading, and both have loaded the same. So all of
it is found before the peak, which is the second one's, and a reading at which nothing moves comes after that.

    bounded_training.py PAIRS [kill]"""

import ctypes
import os
import random
import signal
import sys

import torch

import train


def churn(pairs):
    kept, dice = [], random.Random(0)
    for _ in range(pairs):
        kept.append(torch.empty(dice.randrange(1, 40_000), device="cuda"))
        if len(kept) > 200:
            kept[dice.randrange(200)] = kept[-1]
            kept.pop()
    return kept


def main():
    for _ in range(2):
        train.train(steps=4, batch=16, size=64, device="cuda")
        torch.cuda.synchronize()
        assert ctypes.CDLL(None).gpumem_read_card(-1) == 0, "no reading at which nothing moved"
    kept = churn(int(sys.argv[1]))
    train.train(steps=2, batch=4, size=64, device="cuda")
    print(f"{len(kept)} tensors kept", flush=True)
    if "kill" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(0)


if __name__ == "__main__":
    main()
