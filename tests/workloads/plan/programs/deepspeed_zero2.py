"""DeepSpeed: ZeRO stage 2 with bfloat16 and its own loop, started by its launcher or torchrun."""

import deepspeed
import torch
from torch import nn

deepspeed.init_distributed("nccl")
model = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 2048), nn.GELU(), nn.Linear(2048, 10))
settings = {
    "train_micro_batch_size_per_gpu": 16, "gradient_accumulation_steps": 2, "gradient_clipping": 1.0, "bf16": {"enabled": True},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}},
    "zero_optimization": {"stage": 2, "reduce_bucket_size": 1000000, "allgather_bucket_size": 1000000, "overlap_comm": False},
}
engine, optimizer, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=settings)
for _ in range(4):
    inputs = torch.randn(16, 512, device=engine.device, dtype=torch.bfloat16)
    loss = nn.functional.cross_entropy(engine(inputs).float(), torch.randint(0, 10, (16,), device=engine.device))
    engine.backward(loss)
    engine.step()
print(loss.item())
deepspeed.comm.destroy_process_group()
