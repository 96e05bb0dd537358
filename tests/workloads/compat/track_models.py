"""Pytorch-Memory-Utils: modelsize, of the documented model and of others."""

import time

import torch
from checking import MB, PRELOADED, equal, said
from torch import nn

import gpumem.compat

gpumem.compat.install()

from modelsize_estimate import modelsize  # noqa: E402

torch.ones(1).cuda()


def documented_model():
    return nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(inplace=True), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(inplace=True),
        nn.MaxPool2d(2), nn.Conv2d(64, 128, 3, padding=1),
    )


MODELSIZE = (
    "Model Sequential : params: 0.450304M\n"
    "Model Sequential : intermedite variables: 336.089600 M (without backward)\n"
    "Model Sequential : intermedite variables: 672.179200 M (with backward)\n"
)


def check_the_documented_model():
    torch.cuda.empty_cache()
    model = documented_model().cuda()
    x = torch.empty(1, 3, 682, 700, device="cuda")
    before = torch.cuda.memory_allocated()
    sizes = []
    equal(said(lambda: sizes.append(modelsize(model, x))), MODELSIZE)
    size = sizes[0]
    equal((size.parameters, size.parameter_bytes), (112576, 450304))
    equal((size.forward_bytes, size.with_backward_bytes), (336089600, 672179200))
    out = said(lambda: sizes.append(modelsize(model, x, measure=True)))
    measured = sizes[1].measured
    equal(measured.source, "hooks" if PRELOADED else "sampled")
    how = "measured" if PRELOADED else "by PyTorch's own counters"
    pool = measured.modules[4].held
    equal(out, MODELSIZE
        + f"Model Sequential : {how}: {measured.held / 1e6:3f} M held after forward "
        + f"(peak {measured.forward_peak / 1e6:3f} M)\n"
        + f"Model Sequential : {how}: {measured.backward_peak / 1e6:3f} M at the peak of backward\n"
        + f"  4 (MaxPool2d): estimated 30.553600 M, held {pool / 1e6:3f} M: backward needs its indices, 8 bytes each\n")
    # 2 × 122.2 MB of convolutions, the pool's result and indices, the last convolution's result; and what the pool
    # of memory rounds up, less than 1 MiB each.
    expected = 4 * (2 * 64 * 682 * 700 + 64 * 341 * 350 + 128 * 341 * 350) + 8 * 64 * 341 * 350
    assert expected <= measured.held < expected + 5 * MB, (measured.held, expected)
    equal([one.held for one in measured.modules][1], 0)
    assert measured.forward_peak >= measured.held and measured.backward_peak >= measured.forward_peak
    # PyTorch 1.12's own thread for backward releases the gradients slightly later.
    deadline = time.monotonic() + 240
    while torch.cuda.memory_allocated() != before and time.monotonic() < deadline:
        time.sleep(0.001)
    equal((torch.cuda.memory_allocated(), [p.grad for p in model.parameters()]), (before, [None] * 6))


def check_a_nested_model_and_types():
    inner = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU())
    model = nn.Sequential(inner, nn.Linear(8, 2))
    means = inner[1].running_mean.clone()
    sizes = []
    said(lambda: sizes.append(modelsize(model, torch.ones(5, 4), type_size=2)))
    equal(sizes[0][:4], (40 + 16 + 18, 2 * 74, 2 * 5 * (8 + 8 + 8 + 2), 4 * 5 * 26))
    assert torch.equal(inner[1].running_mean, means)
    out = said(modelsize, model, torch.ones(5, 4), measure=True)
    assert out.endswith("Model Sequential : not measured, the input is not on a GPU\n"), out
