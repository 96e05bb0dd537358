"""torch.profiler with CUDA activities and memory, around a training with a schedule."""

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule

model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 10)).cuda()
optimizer = torch.optim.Adam(model.parameters())
with profile(
    activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], schedule=schedule(wait=1, warmup=1, active=2), profile_memory=True, record_shapes=True,
) as profiler:
    for _ in range(5):
        with record_function("step"):
            inputs = torch.randn(256, 512, device="cuda")
            loss = nn.functional.cross_entropy(model(inputs), torch.randint(0, 10, (256,), device="cuda"))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        profiler.step()
print(profiler.key_averages().table(sort_by="self_device_memory_usage", row_limit=5))
