"""A training on one GPU with a tensor on another one, which runs out of memory in a step and continues; its direct
request to CUDA is refused, too."""

import ctypes
import socket

import torch
import winds_up  # noqa: F401
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


def itself(size):
    runtime, pointer = ctypes.CDLL("libcudart.so.13"), ctypes.c_void_p()
    status = runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(size))
    # Otherwise PyTorch reports the error for one of its calls.
    runtime.cudaGetLastError()
    return status


def too_much():
    try:
        torch.zeros(1 << 40, device="cuda")
    except torch.cuda.OutOfMemoryError:
        return True


elsewhere = torch.zeros(3 << 18, device="cuda:1")
model = nn.Sequential(*(Block(256) for _ in range(3))).cuda()
optimizer = torch.optim.AdamW(model.parameters())
assert itself(5 << 20) == 0
assert itself(1 << 42) != 0
kept = []
for step in range(1, 6):
    loss = model(torch.zeros(512 if step == 3 else 128, 256, device="cuda")).sum()
    if step == 4:
        assert too_much()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    kept.append(torch.zeros(1 << 16, device="cuda"))
# They are live at the end, too: a reference is never released.
for forever in (elsewhere, kept, model):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(forever))
print(socket.gethostname())
