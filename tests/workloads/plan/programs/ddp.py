"""DistributedDataParallel over NCCL, started by torchrun: a distributed sampler, no_sync, a reduced metric."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group("nccl")
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
model = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10)).to(device)
model = DistributedDataParallel(model, device_ids=[device.index])
optimizer = torch.optim.AdamW(model.parameters())
data = TensorDataset(torch.randn(512, 512), torch.randint(0, 10, (512,)))
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=64, sampler=sampler, pin_memory=True)
for epoch in range(2):
    sampler.set_epoch(epoch)
    for step, (inputs, labels) in enumerate(loader):
        inputs, labels = inputs.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        if step % 2 == 0:
            with model.no_sync():
                nn.functional.cross_entropy(model(inputs), labels).backward()
            continue
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    mean = loss.detach().clone()
    dist.all_reduce(mean, dist.ReduceOp.AVG)
dist.barrier()
dist.destroy_process_group()
