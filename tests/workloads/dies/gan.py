"""A GAN that keeps the losses of its generator for a plot, and with each of them the graph that it was computed by."""

import torch
from torch import nn
import winds_up  # noqa: F401

generator = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 1024)).cuda()
critic = nn.Sequential(nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 1)).cuda()
optimizers = [torch.optim.Adam(net.parameters(), betas=(0.5, 0.999)) for net in (generator, critic)]
losses = []


def train(real):
    fake = generator(torch.randn(1024, 64, device="cuda"))
    loss = critic(fake.detach()).mean() - critic(real).mean()
    optimizers[1].zero_grad()
    loss.backward()
    optimizers[1].step()
    score = critic(fake)
    loss = -score.mean()
    optimizers[0].zero_grad()
    loss.backward(retain_graph=True)
    optimizers[0].step()
    return loss


for step in range(400):
    losses.append(train(torch.randn(1024, 1024, device="cuda")))
