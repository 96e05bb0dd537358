"""A large and a small segment of PyTorch's pool."""

import torch

large = torch.ones(1 << 27, device="cuda")
small = torch.ones(16, device="cuda")
torch.cuda.synchronize()
