"""Streams that find no room: all of the card is in one tensor, and PyTorch makes its streams when the first one is asked for."""

import torch

free = torch.cuda.mem_get_info()[0]
kept = torch.empty(free, dtype=torch.uint8, device="cuda")
side = torch.cuda.Stream()
