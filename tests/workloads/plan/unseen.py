"""Known memory that code outside the dispatch mode writes: a compiled region, a CUDA graph's replay."""

import torch


@torch.compile
def counted(x):
    x.add_(1)
    return x.sum()


compiled = torch.zeros(4, device="cuda")
print(compiled.sum().item())  # read: known
counted(compiled)
print(compiled.sum().item())  # read: item

captured = torch.zeros(4, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    captured.add_(1)
captured.copy_(torch.ones(4))
print(captured.sum().item())  # read: known
graph.replay()
print(captured.sum().item())  # read: item
