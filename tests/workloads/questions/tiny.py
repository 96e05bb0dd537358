"""One number on the GPU, and the other memory that it takes."""

import torch

print(torch.zeros(1, device="cuda"))
