"""Pytorch-Memory-Utils: MemTracker in both signatures, modelsize, and the line profiler by settrace."""

import glob
import inspect
import os
import re
import sys
import tempfile
import time

import torch
from checking import MB, PRELOADED, equal, said
from torch import nn

import gpumem.compat

gpumem.compat.install()

import gpu_profile as settrace  # noqa: E402
import simulator  # noqa: E402
from gpu_mem_track import MemTracker  # noqa: E402
from modelsize_estimate import modelsize  # noqa: E402

simulator.prepare(torch)
torch.ones(1).cuda()
folder = tempfile.mkdtemp() + "/"
STAMP = r"\d\d-[A-Z][a-z]{2}-\d\d-\d\d:\d\d:\d\d"
PARAMETER = "<class 'torch.nn.parameter.Parameter'>"
TENSOR = "<class 'torch.Tensor'>"


def device():
    return torch.cuda.current_device()


def on_card(*size, dtype=torch.float32):
    return torch.empty(*size, dtype=dtype, device="cuda")


def written(tracker):
    with open(tracker.gpu_profile_fn, encoding="utf-8") as file:
        return file.read()


def at(line, tensors, allocated):
    where = f"{__file__} line {line}: {inspect.stack()[1].function}"
    return (f"\nAt {where:<50}Total Tensor Used Memory:{tensors:<7}Mb "
            f"Total Allocated Memory:{allocated:<7}Mb\n\n")


def check_the_newer_shape():
    tracker = MemTracker(True, folder + "newer-", device=device())
    lines = [inspect.currentframe().f_lineno + 1]
    tracker.track()
    kept = [nn.Parameter(on_card(512, 512, 3, 3)) for _ in range(7)]
    x = on_card(40, 3, 512, 512)
    lines.append(inspect.currentframe().f_lineno + 1)
    tracker.track()
    del x
    small = on_card(3, 1000, dtype=torch.int16)
    lines.append(inspect.currentframe().f_lineno + 1)
    tracker.track()
    text = written(tracker)
    assert re.fullmatch(folder + "newer-" + STAMP + "-gpu_mem_track.txt", tracker.gpu_profile_fn)
    head, rest = text.split("\n", 1)
    assert re.fullmatch(
        rf"GPU Memory Track \| {STAMP} \| Total Tensor Used Memory:0\.0    Mb Total Allocated Memory:0\.0    Mb", head
    ), head
    equal(rest, "\n"
        + at(lines[0], 0.0, 0.0)
        + "+ | 1 * Size:(40, 3, 512, 512)    | Memory: 120.0 M | <class 'torch.Tensor'> | torch.float32\n"
        + f"+ | 7 * Size:(512, 512, 3, 3)     | Memory: 63.0 M | {PARAMETER} | torch.float32\n"
        + at(lines[1], 183.0, 183.0)
        + "+ | 1 * Size:(3, 1000)            | Memory: 0.0057 M | <class 'torch.Tensor'> | torch.int16\n"
        + "- | 1 * Size:(40, 3, 512, 512)    | Memory: 120.0 M | <class 'torch.Tensor'> | torch.float32\n"
        + at(lines[2], 63.0, 63.0))
    equal(tracker.get_tensor_usage(), 63.0 + 6000 / MB)
    equal(tracker.get_allocate_usage(), torch.cuda.memory_allocated() / MB)
    listed = said(tracker.print_all_gpu_tensor)
    equal(sorted(listed.splitlines()), sorted(
        [f"(512, 512, 3, 3) 9.0 {PARAMETER} torch.float32"] * 7 + [f"(3, 1000) {6000 / MB} {TENSOR} torch.int16"]))
    del kept, small


def check_the_older_shape():
    torch.cuda.empty_cache()
    tracker = MemTracker(inspect.currentframe(), path=folder + "older-", device=device())
    used = simulator.books()["devices"][device()]["physical"]["current"]
    line = inspect.currentframe().f_lineno + 1
    tracker.track()
    x = on_card(30, 3, 512, 512)
    tracker.track()
    head, rest = written(tracker).split("\n", 1)
    assert re.fullmatch(rf"GPU Memory Track \| {STAMP} \| Total Used Memory:{used / MB:<7.1f}Mb", head), head

    def where(line, extra):
        place = f"track check_the_older_shape: line {line}"
        return f"\nAt {place:<50}Total Used Memory:{(used + extra) / MB:<7.1f}Mb\n\n"

    equal(rest, "\n" + where(line, 0)
        + "+ | 1 * Size:(30, 3, 512, 512)    | Memory: 94.372 M | <class 'torch.Tensor'>\n"
        + where(line + 2, 90 * MB))
    del x
    torch.cuda.empty_cache()


def check_views_and_what_python_does_not_see():
    tracker = MemTracker(path=folder + "views-", device=device())
    x = on_card(8, 1024, 1024)
    views = [x[0], x.view(-1), x.t() if x.dim() == 2 else x.transpose(0, 1)]
    equal(tracker.get_tensor_usage(), 32.0)
    part = x[0]
    del x, views
    equal(tracker.get_tensor_usage(), 32.0)  # a part holds the whole
    del part
    weight = nn.Parameter(on_card(1024, 1024))
    tracker.track()
    y = (weight * 2).exp().sum()  # autograd keeps the result of exp, and no name does
    tracker.track()
    text = written(tracker)
    hidden = torch.cuda.memory_allocated() / MB - tracker.get_tensor_usage()
    assert hidden > 3.9 or "(1024, 1024)" in text.split("At ")[2], text
    if hidden > 3.9:
        assert "+ | held where Python sees no tensor  | Memory: 4.0 M | autograd or C++\n" in text, text
    del y, weight


def check_another_device():
    if torch.cuda.device_count() < 2:
        return
    other = 1 - device()
    x = torch.empty(16 * MB, dtype=torch.uint8, device=f"cuda:{other}")
    y = torch.empty(8 * MB, dtype=torch.uint8, device="cuda")
    equal(MemTracker(device=other).get_tensor_usage(), 16.0)
    equal(MemTracker(device=other).get_allocate_usage(), 16.0)
    equal(MemTracker(device=device()).get_tensor_usage(), 8.0)
    del x, y


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
    x = on_card(1, 3, 682, 700)
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
    # PyTorch 1.12's own thread for backward lets go of the gradients a moment after they are gone.
    deadline = time.monotonic() + 10
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


def check_the_settrace_profiler():
    settrace.gpu_profile_fn = folder + "profile.txt"

    torch.cuda.empty_cache()

    def work():
        x = torch.empty(16, 1024, 1024, device="cuda")
        del x
        return 1

    first = work.__code__.co_firstlineno + 1
    base = simulator.books()["devices"][device()]["physical"]["current"]
    earlier = sys.gettrace()
    sys.settrace(settrace.gpu_profile)
    work()
    sys.settrace(earlier)
    with open(settrace.gpu_profile_fn, encoding="utf-8") as file:
        lines = [line for line in file.read().splitlines() if " work: " in line]

    def where(line):
        return f"{f'track work: line {first + line}':<50}"

    used = f"Total Used Memory:{(base + 64 * MB) / MB:<7.1f}Mb"
    equal(lines, [
        f"At {where(0)}{used}",
        f"+ {where(0)} (16, 1024, 1024)     64.0 M <class 'torch.Tensor'>",
        f"At {where(1)}{used}",
        f"- {where(0)} (16, 1024, 1024)     64.0 M <class 'torch.Tensor'>",
        f"At {where(2)}{used}",
    ])
    torch.cuda.empty_cache()


def check_nothing_is_left_behind():
    assert len(glob.glob(folder + "*")) >= 3
    assert not glob.glob(os.path.join(os.getcwd(), "*-gpu_mem_track.txt"))
