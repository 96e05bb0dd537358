"""Pytorch-Memory-Utils: MemTracker in both signatures."""

import glob
import inspect
import os
import re
import tempfile

import torch
from checking import MB, equal, said
from torch import nn

import gpumem.compat

gpumem.compat.install()

import gpu_mem_track  # noqa: E402
import simulator  # noqa: E402
from gpu_mem_track import MemTracker  # noqa: E402

torch.ones(1).cuda()
folder = tempfile.mkdtemp() + "/"
STAMP = r"\d\d-[A-Z][a-z]{2}-\d\d-\d\d:\d\d:\d\d"
PARAMETER = "<class 'torch.nn.parameter.Parameter'>"


def device():
    return torch.cuda.current_device()


def on_card(*size, dtype=torch.float32):
    return torch.empty(*size, dtype=dtype, device="cuda")


def written(tracker):
    with open(tracker.gpu_profile_fn, encoding="utf-8") as file:
        return file.read()


def at(line, tensors, allocated):
    where = f"{__file__} line {line}: {inspect.stack()[1].function}"
    return (f"\nAt {where:<50} Total Tensor Used Memory:{tensors:<7}Mb "
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
        ["torch.Size([512, 512, 3, 3]) torch.float32 9.0"] * 7 + [f"torch.Size([3, 1000]) torch.int16 {6000 / MB}"]))
    equal(len(list(tracker.get_tensors())), 8)
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
    assert re.fullmatch(rf"GPU Memory Track \| {STAMP} \| Total Used Memory:{used / 1e6:<7.1f}Mb", head), head

    def where(line, extra):
        place = f"track check_the_older_shape: line {line}"
        return f"\nAt {place:<50}Total Used Memory:{(used + extra) / 1e6:<7.1f}Mb\n\n"

    row = " | 1 * Size:(30, 3, 512, 512)    | Memory: 94.372 M | <class 'torch.Tensor'>"
    equal(rest, f"\n{where(line, 0)}+{row}\n{where(line + 2, 90 * MB)}")
    del x
    last = inspect.currentframe().f_lineno + 1
    tracker.track()
    equal(written(tracker).split("\n", 1)[1][len(rest):], f"-{row} \n{where(last, 90 * MB)}")
    equal((tracker.func_name, tracker.module_name, tracker.filename), ("check_the_older_shape", "track", __file__))
    equal(tracker.curr_line, last)
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


def check_short_and_long_places():
    """One space follows the 50 columns of the place, however long it is."""
    line = "def work(tracker):\n    tracker.track()\n"
    for name in ("short.py", "a_name_that_is_longer_than_fifty_characters_by_itself.py"):
        names = {}
        exec(compile(line, name, "exec"), names)
        tracker = MemTracker(detail=False, path=folder + "places-", device=device())
        names["work"](tracker)
        place = f"{name} line 2: work"
        assert f"\nAt {place:<50} Total Tensor Used Memory:" in written(tracker), written(tracker)
        os.remove(tracker.gpu_profile_fn)


def check_what_cannot_be_looked_at():
    """`verbose` prints the error; paragraphs are never printed."""
    class Fake(torch.Tensor):
        @property
        def is_cuda(self):
            raise RuntimeError("not a tensor at all")

    fake = torch.ones(1).as_subclass(Fake)
    for verbose in (True, False):
        tracker = MemTracker(path=folder + "verbose-", verbose=verbose, device=device())
        told = "A trivial exception occured: not a tensor at all\n"
        equal(said(tracker.track), told if verbose else "")
        equal(said(lambda: list(tracker.get_tensors())), told if verbose else "")
    del fake


def check_widths_of_types():
    sizes = gpu_mem_track.dtype_memory_size_dict
    wanted = {"float64": 8, "double": 8, "float32": 4, "float": 4, "float16": 2, "half": 2, "bfloat16": 2, "int64": 8,
              "long": 8, "int32": 4, "int": 4, "int16": 2, "short": 2, "uint8": 1, "int8": 1, "bool": 1, "complex64": 8}
    equal({name: sizes[getattr(torch, name)] for name in wanted}, wanted)
    equal(gpu_mem_track.get_mem_space(torch.int16), 2.0)
    assert gpu_mem_track.dtype_memory_size_dict is sizes

    def unknown():
        try:
            gpu_mem_track.get_mem_space("float7")
        except KeyError:
            print("KeyError")

    equal(said(unknown), "dtype float7 is not supported!\nKeyError\n")


def check_cached_memory_is_given_back():
    torch.cuda.empty_cache()
    before = simulator.books()["devices"][device()]["physical"]["current"]
    x = on_card(64, 1024, 1024)
    del x
    MemTracker(path=folder, device=device()).clear_cache()
    equal(simulator.books()["devices"][device()]["physical"]["current"], before)


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


def check_nothing_is_left_behind():
    assert len(glob.glob(folder + "*")) >= 3
    assert not glob.glob(os.path.join(os.getcwd(), "*-gpu_mem_track.txt"))
