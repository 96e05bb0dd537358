"""A quarter of the card by PyTorch's own limit, and a tensor that is larger."""

import torch

torch.cuda.set_per_process_memory_fraction(0.25)
torch.zeros(75 << 20, device="cuda")
