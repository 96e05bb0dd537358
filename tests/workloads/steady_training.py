"""steady_training.py: trains until a line comes on stdin. Prints `trains` once it runs, and at the end PyTorch's own
figures, which do not depend on the number of steps."""

import sys
import threading

import torch

import winds_up  # noqa: F401

LEAST = 40


def main():
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), stop.set()), daemon=True).start()
    step, after = 0, 0
    while step < LEAST or after < LEAST:
        model(torch.empty(32, 64, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step += 1
        after += stop.is_set()
        if step == 10:
            print("trains", flush=True)
    print(torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated(), flush=True)


main()
