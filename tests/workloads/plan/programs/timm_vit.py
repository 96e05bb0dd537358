"""timm: a small ViT with bfloat16 autocast, its optimizer factory, Mixup, and the EMA of its weights."""

import timm
import torch
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.utils import ModelEmaV3

model = timm.create_model("vit_tiny_patch16_224", pretrained=False, num_classes=10, img_size=96, drop_path_rate=0.1).cuda()
average = ModelEmaV3(model, decay=0.99)
optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05)
mixup, criterion = Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, num_classes=10), SoftTargetCrossEntropy()
for _ in range(3):
    images, labels = mixup(torch.randn(16, 3, 96, 96, device="cuda"), torch.randint(0, 10, (16,), device="cuda"))
    with torch.autocast("cuda", torch.bfloat16):
        loss = criterion(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    average.update(model)
    print(loss.item())
