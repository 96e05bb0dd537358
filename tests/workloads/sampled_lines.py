"""Tensors of known sizes on known lines, for sampled stacks: large blocks that every sample has, many small ones of
which few carry stacks, and steps of a small training with temporary blocks. Prints the live bytes and the peak."""

import os
import sys

import torch

MIB = 1 << 20


def large():
    return [torch.empty(32 * MIB, dtype=torch.uint8, device="cuda") for _ in range(4)]


def medium():
    return [torch.empty(256 << 10, dtype=torch.uint8, device="cuda") for _ in range(256)]


def small():
    return [torch.empty(16 << 10, dtype=torch.uint8, device="cuda") for _ in range(4096)]


def temporary():
    for _ in range(64):
        torch.empty(128 << 10, dtype=torch.uint8, device="cuda")


def train(net, optimizer, batch):
    optimizer.zero_grad()
    net(batch).square().mean().backward()
    optimizer.step()


def main():
    net = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256)).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    batch, leaked = torch.ones(64, 256, device="cuda"), []
    kept = [large(), medium(), small()]
    for _ in range(8):
        train(net, optimizer, batch)
        temporary()
        leaked.append(torch.empty(2 * MIB, dtype=torch.uint8, device="cuda"))
    torch.cuda.synchronize()
    print(torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated(), len(kept))
    # What is kept is live at the end.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
