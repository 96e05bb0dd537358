"""PyTorch on the processor alone, from several threads at once: convolutions, attention, checkpoints,
double backward, hooks, and threads that end."""

import threading

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def train(seed):
    torch.manual_seed(seed)
    stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(4))
    block = nn.TransformerEncoderLayer(8, 2, 16)
    optimizer = torch.optim.Adam(list(stem.parameters()) + list(block.parameters()))
    for step in range(6):
        images = torch.randn(2, 3, 16, 16, requires_grad=True)
        x = stem(images).flatten(2).permute(2, 0, 1)
        x = checkpoint(block, x) if step % 2 else block(x)
        x = Double.apply(x)
        x.register_hook(lambda grad: grad.clone())
        loss = x.pow(2).mean()
        if step == 2:
            (grad,) = torch.autograd.grad(loss, images, create_graph=True)
            loss = loss + grad.pow(2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        try:
            torch.empty(3, 4) @ torch.empty(3, 4)  # a C++ exception that becomes one of Python's
        except RuntimeError:
            pass


torch.set_num_threads(2)
for turn in range(3):
    threads = [threading.Thread(target=train, args=(turn * 3 + number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
