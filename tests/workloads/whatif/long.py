"""Many events: N blocks of many sizes, of which 150 live at a time; every eighth is used on another stream.

    python tests/workloads/whatif/long.py N"""

import random
import sys

import torch

LIVE = 150


def size(choose):
    return choose.choice([choose.randrange(1, 600), choose.randrange(1, 1 << 20), choose.randrange(1 << 20, 10 << 20)])


def main(number):
    choose = random.Random(1)
    sizes = [size(choose) for _ in range(4096)]
    places = [choose.randrange(LIVE) for _ in range(8191)]
    held, other = [None] * LIVE, torch.cuda.Stream()
    for n in range(number):
        block = torch.empty(sizes[n * 7 % len(sizes)], dtype=torch.uint8, device="cuda")
        if n % 8 == 0:
            block.record_stream(other)
        held[places[n % len(places)]] = block
    print(torch.cuda.memory_stats()["reserved_bytes.all.peak"])


main(int(sys.argv[1]))
