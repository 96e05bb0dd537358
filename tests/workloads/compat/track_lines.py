"""Pytorch-Memory-Utils: the line profiler by settrace, under both of its names."""

import os
import sys
import tempfile

import torch
from checking import MB, equal

import gpumem.compat

gpumem.compat.install()

import gpu_profile  # noqa: E402
import simulator  # noqa: E402
import track_mem_use  # noqa: E402

torch.ones(1).cuda()
folder = tempfile.mkdtemp()


def work():
    x = torch.empty(16, 1024, 1024, device="cuda")
    del x
    return 1


def used(card):
    return simulator.books()["devices"][card]["physical"]["current"]


def traced(name):
    """The lines that are written of `work`, traced by the profiler."""
    gpu_profile.gpu_profile_fn = os.path.join(folder, name)
    earlier = sys.gettrace()
    sys.settrace(gpu_profile.gpu_profile)
    work()
    sys.settrace(earlier)
    with open(gpu_profile.gpu_profile_fn, encoding="utf-8") as file:
        return [line for line in file.read().splitlines() if " work: " in line]


def check_the_settrace_profiler():
    first = work.__code__.co_firstlineno + 1
    torch.cuda.empty_cache()
    base = used(torch.cuda.current_device())
    lines = traced("profile.txt")

    def where(line):
        return f"{f'track_lines work: line {first + line}':<50}"

    total = f"Total Used Memory:{(base + 64 * MB) / MB:<7.1f}Mb"
    equal(lines, [
        f"At {where(0)}{total}",
        f"+ {where(0)} (16, 1024, 1024)     64.0 M <class 'torch.Tensor'>",
        f"At {where(1)}{total}",
        f"- {where(0)} (16, 1024, 1024)     64.0 M <class 'torch.Tensor'>",
        f"At {where(2)}{total}",
    ])
    torch.cuda.empty_cache()


def check_sums_alone():
    gpu_profile.print_tensor_sizes = False
    try:
        lines = traced("sums.txt")
    finally:
        gpu_profile.print_tensor_sizes = True
    equal([line[:2] for line in lines], ["At"] * 3)


def check_another_card():
    last = torch.cuda.device_count() - 1
    torch.ones(1, device=f"cuda:{last}")
    held = torch.empty(3, 1024, 1024, device=f"cuda:{last}")
    os.environ["GPU_DEBUG"] = str(last)
    try:
        lines = traced("other.txt")
        equal([tensor.data_ptr() for tensor in gpu_profile.get_tensors()], [held.data_ptr()])
    finally:
        del os.environ["GPU_DEBUG"]
    assert lines[-1].endswith(f"Total Used Memory:{used(last) / MB:<7.1f}Mb"), lines
    del held


def check_names():
    assert track_mem_use is gpu_profile  # its later name
    assert gpumem.compat.gpu_profile is gpu_profile
