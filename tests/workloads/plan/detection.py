"""Detection as libraries implement it, in plain PyTorch: masks, non-maximum suppression, boxes whose number is data.

Known boxes give 3 of 5; boxes of a network give the assumed number for unknown ones."""

import torch
from torch import nn


def areas(boxes):
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def overlaps(one, others):
    low, high = torch.maximum(one[:2], others[:, :2]), torch.minimum(one[2:], others[:, 2:])
    common = (high - low).clamp(min=0).prod(1)
    return common / (areas(one[None]) + areas(others) - common + 1e-6)


def suppressed(boxes, scores, most=0.5):
    order, kept = scores.argsort(descending=True), []
    while order.numel() > 0:
        kept.append(order[0])
        rest = order[1:]
        order = rest[overlaps(boxes[order[0]], boxes[rest]) <= most]  # read: boolean index
    return torch.stack(kept) if kept else order


boxes = torch.tensor([[0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30], [21, 20, 31, 30], [50, 50, 60, 60.0]], device="cuda")
scores = torch.tensor([0.9, 0.8, 0.95, 0.3, 0.5], device="cuda")
kept = suppressed(boxes, scores)
print("KNOWN", kept.tolist())

network = nn.Linear(8, 5, device="cuda")
with torch.no_grad():
    found = network(torch.randn(64, 8, device="cuda"))
    likely = found[:, 4] > 0.0  # computed of unknown values
    candidates = found[:, :4][likely]  # read: boolean index
    found_scores = torch.masked_select(found[:, 4], likely)  # read: masked_select
    places = torch.where(likely)[0]  # read: nonzero
    labels, counts = torch.unique(found[:, 0].long(), return_counts=True)  # read: unique
    spread = torch.repeat_interleave(counts)  # read: repeat_interleave
    if len(candidates):
        suppressed(candidates, found_scores)
print("UNKNOWN", candidates.shape[0], places.shape[0], labels.shape[0], spread.shape[0])
