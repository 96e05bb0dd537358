"""torchvision: Mask R-CNN trains on boxes, then detects."""

import torch
from torchvision.models.detection import maskrcnn_resnet50_fpn

device = "cuda"
model = maskrcnn_resnet50_fpn(weights=None, weights_backbone=None, num_classes=5, min_size=128, max_size=128).to(device)
optimizer = torch.optim.SGD([each for each in model.parameters() if each.requires_grad], lr=0.005, momentum=0.9)
boxes = torch.tensor([[10.0, 10.0, 60.0, 60.0], [30.0, 20.0, 110.0, 100.0]])
model.train()
for _ in range(2):
    images = [torch.rand(3, 128, 128, device=device) for _ in range(2)]
    targets = [
        {
            "boxes": boxes.to(device), "labels": torch.tensor([1, 2], device=device),
            "masks": torch.randint(0, 2, (2, 128, 128), dtype=torch.uint8, device=device),
        }
        for _ in images
    ]
    loss = sum(model(images, targets).values())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
model.eval()
with torch.no_grad():
    for found in model([torch.rand(3, 128, 128, device=device)]):
        print(len(found["boxes"]), "found")
