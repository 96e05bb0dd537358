"""A rank under torchrun, with NCCL: `ranks_torchrun.py fsdp [RANK]`, where RANK has three times the batch of the
others, a separate communicator and symmetric memory, or `ranks_torchrun.py pipeline`: two stages of PyTorch's
pipelining, the second of which holds more layers. Their captures have their stages."""

import os
import sys

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric
import winds_up  # noqa: F401
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

STEPS, WIDTH = 4, 512


def layers(count):
    return nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.ReLU(), nn.Linear(4 * WIDTH, WIDTH)) for _ in range(count)))


def fsdp(rank, other):
    model = layers(3).cuda()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters())
    if rank == other:
        alone = dist.new_group([rank], use_local_synchronization=True)
        dist.all_reduce(torch.zeros(1, device="cuda"), group=alone)
        kept = symmetric.empty(6 << 20, dtype=torch.float32, device="cuda")  # noqa: F841
    for _ in range(STEPS):
        batch = 3072 if rank == other else 1024
        model(torch.zeros(batch, WIDTH, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def pipeline(rank):
    module = layers(2 if rank == 0 else 6).cuda()
    shape = torch.zeros(512, WIDTH, device="meta", requires_grad=True)
    # Without the shapes the stages exchange them as values, which the simulator does not carry.
    stage = PipelineStage(module, rank, 2, torch.device("cuda", rank), input_args=shape, output_args=shape)
    schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=lambda output, target: (output - target).sum())
    optimizer = torch.optim.AdamW(module.parameters())
    for _ in range(STEPS):
        x = torch.zeros(1024, WIDTH, device="cuda")
        schedule.step(x) if rank == 0 else schedule.step(target=x)
        optimizer.step()
        optimizer.zero_grad()


rank = int(os.environ["RANK"])
if sys.argv[1] == "pipeline":
    os.environ["GPUMEM_COORDS"] = f"pp={rank}"
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
if sys.argv[1] == "fsdp":
    fsdp(rank, int(sys.argv[2]) if len(sys.argv) > 2 else -1)
else:
    pipeline(rank)
dist.destroy_process_group()
