"""A CUDA graph of a whole training step, as in PyTorch's notes on CUDA semantics: a warm-up on a side stream, then replays."""

import torch
from torch import nn

model = nn.Sequential(
    nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 15 * 15, 10)
).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
images, labels = torch.randn(16, 3, 32, 32, device="cuda"), torch.randint(0, 10, (16,), device="cuda")
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        optimizer.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
optimizer.zero_grad(set_to_none=True)
with torch.cuda.graph(graph):
    loss = nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
for _ in range(5):
    images.copy_(torch.randn(16, 3, 32, 32))
    labels.copy_(torch.randint(0, 10, (16,)))
    graph.replay()
print(loss.item())
