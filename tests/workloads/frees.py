"""Two tensors of a function, each freed at a separate line."""

import torch


def work():
    kept = torch.ones(1 << 20, device="cuda")
    small = torch.ones(1 << 10, device="cuda")
    del kept
    torch.cuda.synchronize()
    del small


work()
