"""timm: fine-tunes ConvNeXt: the stem is frozen, layers have separate learning rates; then computes features."""

import timm
import torch
from timm.optim import create_optimizer_v2

model = timm.create_model("convnext_atto", pretrained=False, num_classes=10).cuda()
model.stem.requires_grad_(False)
optimizer = create_optimizer_v2(model, opt="lamb", lr=1e-3, layer_decay=0.8)
for _ in range(2):
    loss = torch.nn.functional.cross_entropy(model(torch.randn(8, 3, 96, 96, device="cuda")), torch.randint(0, 10, (8,), device="cuda"))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
model.eval()
with torch.inference_mode():
    print(model.forward_features(torch.randn(16, 3, 96, 96, device="cuda")).shape)
