"""A training, twice, then enough small tensors to overwrite a bounded capture's log of events, then a smaller
training. It ends at once: by SIGKILL with `kill`, otherwise so that live blocks stay live.

The card is read after each of the two trainings, because only a reading shows what code takes, and both have loaded
the same code. So it is found before the peak, which is that of the second one, and a later reading shows no change.

    bounded_training.py PAIRS kill|exit"""

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
