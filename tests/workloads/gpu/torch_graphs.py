"""PyTorch under CUDA graphs: a training step is captured into a private pool and replayed."""

import figures
import torch
from torch import nn


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    static_input = torch.randn(256, 1024, device="cuda")
    target = torch.randn(256, 1024, device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = (model(static_input) - target).pow(2).mean()
        loss.backward()
        return loss

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
            optimizer.step()
    torch.cuda.current_stream().wait_stream(side)

    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = step()
    for _ in range(5):
        static_input.copy_(torch.randn(256, 1024, device="cuda"))
        graph.replay()
        optimizer.step()
    torch.cuda.synchronize()
    figures.tell(loss_finite=bool(torch.isfinite(loss).item()))


if __name__ == "__main__":
    main()
