"""A library replaces functions of PyTorch's for a while, as DeepSpeed's zero.Init does: the new functions return
floating-point numbers of half the requested width."""

import torch

real = torch.empty, torch.zeros


def narrow(function):
    def made(*words, **options):
        tensor = function(*words, **options)
        return tensor.to(torch.bfloat16) if tensor.is_floating_point() else tensor

    return made


torch.empty, torch.zeros = map(narrow, real)
rows = torch.arange(4096, dtype=torch.float32).reshape(64, 64)
there = rows.cuda()
columns = there.t().contiguous()
half = there.half()
there[:, ::2].zero_()
kept = there[there > 4000.0]
torch.empty, torch.zeros = real
print(torch.equal(columns.cpu(), rows.t()), torch.equal(half.cpu(), rows.half()), there.sum().item(), len(kept))
