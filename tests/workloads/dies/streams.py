"""Streams that do not fit: one tensor has all of the card, and the first request for a stream makes PyTorch's streams."""

import torch

free = torch.cuda.mem_get_info()[0]
kept = torch.empty(free, dtype=torch.uint8, device="cuda")
side = torch.cuda.Stream()
