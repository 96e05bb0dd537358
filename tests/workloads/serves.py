"""A server without steps that keeps each response: the rounds of its loop show the growth."""

import torch
from torch import nn

model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512)).cuda()
history = []


@torch.no_grad()
def answer(request):
    return model(request).softmax(-1)


def serve(requests):
    for _ in range(requests):
        request = torch.randn(256, 512, device="cuda")
        history.append(answer(request))


serve(20)
