"""fully_shard (FSDP2) with bfloat16 parameters, made on the meta device; checkpointed layers; started by torchrun."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
with torch.device("meta"):
    layer = nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True, dropout=0.0)
    model = nn.Sequential(nn.Embedding(1000, 256), nn.TransformerEncoder(layer, 4), nn.Linear(256, 1000))
apply_activation_checkpointing(model, check_fn=lambda module: isinstance(module, nn.TransformerEncoderLayer))
mesh = init_device_mesh("cuda", (dist.get_world_size(),))
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for block in model[1].layers:
    fully_shard(block, mesh=mesh, mp_policy=policy)
fully_shard(model, mesh=mesh, mp_policy=policy)
model.to_empty(device="cuda")
for parameter in model.parameters():
    nn.init.normal_(parameter, std=0.02)
optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
for _ in range(3):
    words = torch.randint(0, 1000, (4, 128), device="cuda")
    loss = nn.functional.cross_entropy(model(words).flatten(0, 1).float(), words.flatten())
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
