"""One number on the GPU: what else that takes of the card."""

import torch

print(torch.zeros(1, device="cuda"))
