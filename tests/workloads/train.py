"""A small but real training: a convolutional stem and two transformer blocks, forward, backward and
Adam. It has two deliberate faults for a memory profiler to find: a temporary spike in one step, and
a list that keeps a tensor of every step alive."""

import argparse

import torch
import torch.nn.functional as F
import winds_up  # noqa: F401
from torch import nn

HISTORY = []


class Stem(nn.Module):
    """Images to a sequence of patches."""

    def __init__(self, width):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 3, padding=1)
        self.conv2 = nn.Conv2d(64, width, 3, padding=1)
        self.pool = nn.MaxPool2d(4)

    def forward(self, images):
        x = self.conv1(images)
        x = F.relu(x)
        x = self.conv2(x)
        x = self.pool(x)
        return x.flatten(2).transpose(1, 2).contiguous()


class Block(nn.Module):
    """Attention and a feed-forward layer, each added to what came in."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def attention(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).contiguous()
        scores = q @ k.transpose(-2, -1)
        weights = scores.softmax(dim=-1)
        mixed = (weights @ v).transpose(1, 2).reshape(batch, length, width)
        return self.out(mixed)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        hidden = F.gelu(self.up(self.norm2(x)))
        return x + self.down(hidden)


class Model(nn.Module):
    def __init__(self, width=128, heads=4, classes=10):
        super().__init__()
        self.stem = Stem(width)
        self.blocks = nn.ModuleList([Block(width, heads), Block(width, heads)])
        self.head = nn.Linear(width, classes)

    def forward(self, images):
        x = self.stem(images)
        for block in self.blocks:
            x = block(x)
        features = x.mean(dim=1)
        return self.head(features), features


def similarity(features):
    """How far apart all pairs of samples are. The spike: it lays out every pair at once."""
    pairs = features.unsqueeze(1) - features.unsqueeze(0)
    pairs = pairs.unsqueeze(-1).expand(-1, -1, -1, 256).contiguous()
    return pairs.pow(2).sum()


def train(steps, batch, size, device):
    torch.manual_seed(0)
    model = Model().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(steps):
        images = torch.randn(batch, 3, size, size, device=device)
        labels = torch.zeros(batch, dtype=torch.long, device=device)
        logits, features = model(images)
        loss = F.cross_entropy(logits, labels)
        if step == steps // 2:
            with torch.no_grad():
                similarity(features)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        HISTORY.append(images.mean(dim=1))  # the leak: one plane of each image, in every step


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--size", type=int, default=64, help="width and height of an image")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--no-cudnn", action="store_true", help="PyTorch's own convolutions")
    options = parser.parse_args()
    if options.no_cudnn:
        torch.backends.cudnn.enabled = False
    train(options.steps, options.batch, options.size, options.device)
    print(f"{options.steps} steps with PyTorch {torch.__version__}, {len(HISTORY)} tensors kept")


if __name__ == "__main__":
    main()
