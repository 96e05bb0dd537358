"""A kernel whose code finds no room: all of the card is in one tensor, and nothing is asked for in bytes."""

import torch

free = torch.cuda.mem_get_info()[0]
kept = torch.empty(free, dtype=torch.uint8, device="cuda")
view = kept[: 4 << 20].view(torch.float32)
view.relu_()
