"""Memory that barriers of an NCCL group add to PyTorch's, and the rest after the end of the group."""

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
torch.ones(1000, device="cuda")
allocated = [torch.cuda.memory_allocated()]
for _ in range(2):
    dist.barrier()
    allocated.append(torch.cuda.memory_allocated())
dist.destroy_process_group()
allocated.append(torch.cuda.memory_allocated())
print("ALLOCATED", allocated, torch.cuda.max_memory_allocated())
