"""Another process holds most of the card."""

import torch

weights = torch.empty(50 << 20, dtype=torch.uint8, device="cuda")
batch = torch.empty(200 << 20, dtype=torch.uint8, device="cuda")
