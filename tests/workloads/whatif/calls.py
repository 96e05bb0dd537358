"""Makes PyTorch's allocator call CUDA: blocks of many sizes three times, with the cache emptied between; then, where
the card is too small for it, a block that cannot be allocated. Prints the allocator's figures."""

import json

import torch

MIB = 1 << 20

for _ in range(3):
    large = [torch.empty((size + 1) * 2 * MIB, dtype=torch.uint8, device="cuda") for size in range(8)]
    small = [torch.empty(1000, device="cuda") for _ in range(1500)]
    del large, small
    torch.cuda.empty_cache()
try:
    torch.empty(1024 * MIB, dtype=torch.uint8, device="cuda")
    failed = False
except torch.cuda.OutOfMemoryError:
    failed = True
print(json.dumps({**torch.cuda.memory_stats(), "failed": failed}))
