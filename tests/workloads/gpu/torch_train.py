"""PyTorch: a small convolutional network with attention, forward, backward and Adam, with sizes that
change from step to step. The allocator's back end comes from PYTORCH_CUDA_ALLOC_CONF."""

import figures
import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self, width=256, heads=8, classes=100):
        super().__init__()
        self.heads = heads
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, width, 3, stride=2, padding=1), nn.MaxPool2d(4)
        )
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.head = nn.Linear(width, classes)

    def forward(self, images):
        x = self.stem(images).flatten(2).transpose(1, 2)
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).contiguous()
        weights = (q @ k.transpose(-2, -1)).softmax(dim=-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))
        x = x + self.down(F.gelu(self.up(x)))
        return self.head(x.mean(dim=1))


def main(steps=12):
    torch.manual_seed(0)
    model = Model().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    kept = []
    for step in range(steps):
        batch = 32 + 16 * (step % 3)
        images = torch.randn(batch, 3, 64, 64, device="cuda")
        labels = torch.randint(0, 100, (batch,), device="cuda")
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        kept.append(images[0].clone())
    torch.cuda.synchronize()
    figures.tell(kept=len(kept))


if __name__ == "__main__":
    main()
