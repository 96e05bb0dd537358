"""accelerate: its own loop with fp16, accumulation of gradients, clipping, and a metric gathered over all processes."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(mixed_precision="fp16", gradient_accumulation_steps=2)
data = TensorDataset(torch.randn(128, 3, 32, 32), torch.randint(0, 10, (128,)))
model = nn.Sequential(
    nn.Conv2d(3, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(64, 128, 3, padding=1), nn.BatchNorm2d(128), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=8)
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, DataLoader(data, batch_size=32, shuffle=True), scheduler)
correct = 0
for images, labels in loader:
    with accelerator.accumulate(model):
        output = model(images)
        accelerator.backward(nn.functional.cross_entropy(output, labels))
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    predicted, truth = accelerator.gather_for_metrics((output.argmax(-1), labels))
    correct += (predicted == truth).sum().item()
accelerator.print(f"accuracy {correct / len(data):.3f}")
