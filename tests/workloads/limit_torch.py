"""PyTorch on a card that runs full: the answers that it gets and its reactions, one line each. Argument: a fraction
of the card that the process may have, or 0."""

import os
import sys

import torch

MIB = 1 << 20
fraction = float(sys.argv[1])
if fraction:
    torch.cuda.set_per_process_memory_fraction(fraction)


def told(what):
    print(
        what, torch.cuda.mem_get_info(), torch.cuda.memory_allocated(), torch.cuda.memory_reserved(),
    )


print("total", torch.cuda.get_device_properties(0).total_memory)
told("begin")
kept = []
for size in (300, 200, 120, 64, 32, 16, 10, 6, 4, 1):
    while True:
        try:
            kept.append(torch.empty(size * MIB, dtype=torch.uint8, device="cuda"))
        except RuntimeError as error:
            print(size, len(kept), type(error).__name__, str(error).split(".")[0])
            break
    told(size)
del kept[::2]
told("freed")
try:
    torch.empty(150 * MIB, dtype=torch.uint8, device="cuda")
    print("150 fitted")
except RuntimeError:
    print("150 failed")
told("after")
torch.cuda.empty_cache()
told("emptied")
kept.clear()
torch.cuda.synchronize()
torch.cuda.empty_cache()
model = torch.nn.Linear(1024, 1024, device="cuda") if not sys.argv[2:] else torch.nn.Linear(1024, 1024).cuda()
loss = model(torch.ones(64, 1024, device="cuda")).sum()
loss.backward()
told("trained")
# A program that returns while autograd's thread winds up is at times ended by PyTorch itself ("terminate called
# without an active exception"), also with no library preloaded.
sys.stdout.flush()
os._exit(0)
