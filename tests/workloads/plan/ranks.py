"""One rank of a training that is sharded over all ranks, by FSDP2 or not at all (DDP), with separate groups."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
world, rank = dist.get_world_size(), dist.get_rank()
blocks = [nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)) for _ in range(8)]
model = nn.Sequential(*blocks).cuda()
if sys.argv[1] == "fsdp":
    mesh = init_device_mesh("cuda", (world,))
    for block in blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
else:
    model = nn.parallel.DistributedDataParallel(model, device_ids=[torch.cuda.current_device()])
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    model(torch.randn(256, 1024, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
everyone = [None] * world
dist.all_gather_object(everyone, rank)
dist.barrier()
pair = dist.new_group([0, 1], backend="nccl")
assert dist.get_backend() == "nccl" and len(everyone) == world
print(f"rank {rank} of {world} has ended")
