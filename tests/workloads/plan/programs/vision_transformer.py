"""torchvision: a ViT with AdamW and a warm-up, and the average of its weights (EMA)."""

import torch
from torch import nn
from torchvision.models import VisionTransformer

model = VisionTransformer(image_size=64, patch_size=8, num_layers=6, num_heads=8, hidden_dim=256, mlp_dim=1024, num_classes=10).cuda()
average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.999))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.3)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=10)
for step in range(3):
    images, labels = torch.randn(16, 3, 64, 64, device="cuda"), torch.randint(0, 10, (16,), device="cuda")
    loss = nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    schedule.step()
    average.update_parameters(model)
average.eval()
with torch.no_grad():
    print(average(torch.randn(32, 3, 64, 64, device="cuda")).argmax(-1).tolist())
