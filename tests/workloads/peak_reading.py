"""peak_reading.py [--graphs]: trains a little, then holds one large tensor, which makes the peak, and prints
`READING {json}` with NVML's figures while it is held. With --graphs the training steps are replays of a CUDA
graph."""

import ctypes
import json
import os
import sys

import torch
from torch import nn

import nvml_figures
import winds_up  # noqa: F401


def step_of(model, optimizer, images):
    def step():
        optimizer.zero_grad(set_to_none=False)
        model(images).square().mean().backward()
        optimizer.step()

    return step


def train(graphs):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images = torch.randn(512, 256, device="cuda")
    step = step_of(model, optimizer, images)
    if not graphs:
        for _ in range(3):
            step()
        return model, optimizer, None
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for _ in range(3):
        graph.replay()
    return model, optimizer, graph


def main():
    kept = train("--graphs" in sys.argv[1:])
    torch.cuda.synchronize()
    # So that all code that was loaded is in the second ledger before the peak.
    recorder = ctypes.CDLL(None)
    if hasattr(recorder, "gpumem_read_card"):
        recorder.gpumem_read_card(-1)
    large = torch.empty(777 << 20, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    os.write(1, f"READING {json.dumps(nvml_figures.reading())}\n".encode())
    del large
    torch.cuda.synchronize()
    assert kept
    sys.stdout.flush()
    os._exit(0) if "--hard" in sys.argv[1:] else None


if __name__ == "__main__":
    main()
