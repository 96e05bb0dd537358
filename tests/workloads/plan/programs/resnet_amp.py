"""torchvision: ResNet-18 with autocast, GradScaler, channels_last and cudnn.benchmark, as its training reference has it."""

import torch
import torchvision
from torch import nn

torch.backends.cudnn.benchmark = True
device = torch.device("cuda")
model = torchvision.models.resnet18(num_classes=100).to(device, memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
scaler = torch.amp.GradScaler("cuda")
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
model.train()
for step in range(3):
    images = torch.randn(16, 3, 96, 96).to(device, memory_format=torch.channels_last, non_blocking=True)
    labels = torch.randint(0, 100, (16,)).to(device, non_blocking=True)
    with torch.autocast("cuda"):
        output = model(images)
        loss = criterion(output, labels)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    with torch.inference_mode():
        top = output.topk(5, 1).indices.t()
        accuracy = (top == labels[None]).float().sum() * 100 / len(labels)
    print(step, loss.item(), accuracy.item())
