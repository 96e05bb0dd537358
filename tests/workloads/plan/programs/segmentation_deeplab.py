"""torchvision: DeepLabV3 segments images, with an auxiliary loss and an ignored class."""

import torch
from torch import nn
from torchvision.models.segmentation import deeplabv3_mobilenet_v3_large

model = deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=21, aux_loss=True).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
for _ in range(2):
    images, masks = torch.rand(4, 3, 128, 128, device="cuda"), torch.randint(0, 21, (4, 128, 128), device="cuda")
    output = model(images)
    loss = nn.functional.cross_entropy(output["out"], masks, ignore_index=255)
    loss = loss + 0.5 * nn.functional.cross_entropy(output["aux"], masks, ignore_index=255)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
