"""A kernel whose code does not fit: one tensor has all of the card, and the launch requests no bytes explicitly."""

import torch

free = torch.cuda.mem_get_info()[0]
kept = torch.empty(free, dtype=torch.uint8, device="cuda")
view = kept[: 4 << 20].view(torch.float32)
view.relu_()
