"""DeepSpeed: ZeRO stage 3 with parameters sharded as they are made, optimizer states in host memory."""

import deepspeed
import torch
from torch import nn

deepspeed.init_distributed("nccl")
settings = {
    "train_micro_batch_size_per_gpu": 16, "bf16": {"enabled": True}, "zero_force_ds_cpu_optimizer": False,
    "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}, "stage3_param_persistence_threshold": 1000},
}
with deepspeed.zero.Init(config_dict_or_path=settings):
    model = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 2048), nn.GELU(), nn.Linear(2048, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
engine, _, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config=settings)
for _ in range(3):
    inputs = torch.randn(16, 512, device=engine.device, dtype=torch.bfloat16)
    loss = nn.functional.cross_entropy(engine(inputs).float(), torch.randint(0, 10, (16,), device=engine.device))
    engine.backward(loss)
    engine.step()
print(loss.item())
deepspeed.comm.destroy_process_group()
