"""Known bytes on two cards, interleaved, with different peaks. Run under `tell.py`."""

import torch

kept = []
for step in range(6):
    for device in (0, 1):
        kept.append(torch.empty((step + 1) * (device + 1) * 512, dtype=torch.uint8, device=f"cuda:{device}"))
spike = torch.empty(600 * 512, dtype=torch.uint8, device="cuda:1")
del spike
moved = kept[0].to("cuda:1")
