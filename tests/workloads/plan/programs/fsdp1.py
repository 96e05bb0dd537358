"""FullyShardedDataParallel with wrapped layers, bfloat16 and the full state on rank 0, started by torchrun."""

import functools
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullStateDictConfig, FullyShardedDataParallel, MixedPrecision, StateDictType
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
layer = nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True, dropout=0.0)
model = nn.Sequential(nn.Embedding(1000, 256), nn.TransformerEncoder(layer, 4), nn.Linear(256, 1000))
model = FullyShardedDataParallel(
    model, auto_wrap_policy=functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={nn.TransformerEncoderLayer}),
    mixed_precision=MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16, buffer_dtype=torch.bfloat16),
    device_id=torch.cuda.current_device(), limit_all_gathers=True,
)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    words = torch.randint(0, 1000, (4, 128), device="cuda")
    loss = nn.functional.cross_entropy(model(words).flatten(0, 1).float(), words.flatten())
    loss.backward()
    model.clip_grad_norm_(1.0)
    optimizer.step()
    optimizer.zero_grad()
with FullyShardedDataParallel.state_dict_type(model, StateDictType.FULL_STATE_DICT, FullStateDictConfig(offload_to_cpu=True, rank0_only=True)):
    state = model.state_dict()
if dist.get_rank() == 0:
    print(len(state), "tensors")
dist.destroy_process_group()
