"""pytorch_memlab: lines, tensors, and Courtesy."""

import io
import sys

import torch
from checking import MB, PRELOADED, equal, said
import winds_up  # noqa: F401

import gpumem.compat

gpumem.compat.install()

import pytorch_memlab  # noqa: E402
from pytorch_memlab import Courtesy, LineProfiler, profile_every  # noqa: E402
from pytorch_memlab.line_profiler.profile import atexit, global_line_profiler  # noqa: E402

torch.ones(1).cuda()
torch.cuda.empty_cache()


def device():
    return torch.cuda.current_device()


def inner():
    torch.nn.Linear(100, 100).cuda()


def outer():
    linear = torch.nn.Linear(100, 100).cuda()  # noqa: F841
    linear2 = torch.nn.Linear(100, 100).cuda()  # noqa: F841
    big = torch.empty(256 * MB, dtype=torch.uint8, device="cuda")
    del big
    torch.cuda.empty_cache()
    torch.empty(64 * MB, dtype=torch.uint8, device="cuda")
    inner()


def check_documented_lines():
    torch.cuda.reset_peak_memory_stats()
    with LineProfiler(outer, inner, target_gpu=device()) as profiler:
        outer()
    text = repr(profiler.display())
    if not PRELOADED:
        assert text.startswith("## outer\n\nactive_bytes reserved_bytes line  code\n"), text
        return
    first, second = outer.__code__.co_firstlineno, inner.__code__.co_firstlineno
    wanted = [
        "## outer",
        "",
        "active_bytes reserved_bytes line  code",
        "         all            all",
        "        peak           peak",
        f"       0.00B          0.00B {first:4}  def outer():",
        f"      40.00K          2.00M {first + 1:4}      linear = torch.nn.Linear(100, 100).cuda()  # noqa: F841",
        f"      80.00K          2.00M {first + 2:4}      linear2 = torch.nn.Linear(100, 100).cuda()  # noqa: F841",
        f"     256.08M        258.00M {first + 3:4}      big = torch.empty(256 * MB, dtype=torch.uint8, device=\"cuda\")",
        f"     256.08M        258.00M {first + 4:4}      del big",
        f"      80.00K        258.00M {first + 5:4}      torch.cuda.empty_cache()",
        f"      64.08M         66.00M {first + 6:4}      torch.empty(64 * MB, dtype=torch.uint8, device=\"cuda\")",
        f"     120.00K         66.00M {first + 7:4}      inner()",
        "",
        "",
        "## inner",
        "",
        "active_bytes reserved_bytes line  code",
        "         all            all",
        "        peak           peak",
        f"      80.00K         66.00M {second:4}  def inner():",
        f"     120.00K         66.00M {second + 1:4}      torch.nn.Linear(100, 100).cuda()",
        "",
    ]
    equal(text.split("\n"), wanted)
    # PyTorch's own counter was not reset on the way.
    assert torch.cuda.max_memory_allocated() >= 256 * MB
    out, ooms = io.StringIO(), torch.cuda.memory_stats()["num_ooms"]
    profiler.print_stats(inner, columns=("active_bytes.all.peak", "num_ooms"), stream=out)
    equal(out.getvalue().split("\n"), [
        "## inner", "", "active_bytes num_ooms line  code", "         all", "        peak",
        f"      80.00K {ooms:8} {second:4}  def inner():",
        f"     120.00K {ooms:8} {second + 1:4}      torch.nn.Linear(100, 100).cuda()", ""])
    assert "<table>" in profiler.display()._repr_html_()
    torch.cuda.empty_cache()


def check_trace_functions_are_kept():
    """A debugger's or a coverage tool's, and it still sees everything."""
    seen = []

    def theirs(frame, event, arg):
        if frame.f_code is inner.__code__:
            seen.append(event)
        return theirs

    before = sys.gettrace()
    sys.settrace(theirs)
    try:
        with LineProfiler(inner, target_gpu=device()) as profiler:
            inner()
        equal(sys.gettrace(), theirs)
    finally:
        sys.settrace(before)
    equal(seen, ["call", "line", "return"])
    assert len(profiler.display().tables[0].figures) == 2


def check_exceptions_recursion_and_generators():
    def fails(depth):
        x = torch.empty(2**depth * MB, dtype=torch.uint8, device="cuda")  # noqa: F841
        if depth == 4:
            raise KeyError
        fails(depth + 1)

    def steps():
        for size in (1, 2):
            x = torch.empty(size * MB, dtype=torch.uint8, device="cuda")
            yield x

    with LineProfiler(fails, steps, target_gpu=device()) as profiler:
        for _ in range(2):
            try:
                fails(0)
            except KeyError:
                pass
        list(map(type, steps()))
    if PRELOADED:
        figures, of_steps = (table.figures for table in profiler.display().tables)
        first = fails.__code__.co_firstlineno
        equal(figures[first + 1]["active_bytes.all.peak"], (1 + 2 + 4 + 8 + 16) * MB)
        equal(max(row["active_bytes.all.peak"] for row in of_steps.values()), 3 * MB)
    equal(profiler._running, {})


def check_two_cards():
    if torch.cuda.device_count() < 2:
        return

    def work():
        x = torch.empty(4 * MB, dtype=torch.uint8, device="cuda:0")  # noqa: F841
        y = torch.empty(8 * MB, dtype=torch.uint8, device="cuda:1")  # noqa: F841

    with LineProfiler(work, target_gpu=[0, 1]) as profiler:
        work()
    tables = profiler.display().tables
    name = "check_two_cards.<locals>.work"
    equal([table.name for table in tables], [f"{name} on GPU 0", f"{name} on GPU 1"])
    last = work.__code__.co_firstlineno + 2
    equal([table.figures[last]["active_bytes.all.peak"] for table in tables], [4 * MB, 8 * MB])


def check_decorators():
    pytorch_memlab.set_target_gpu(device())

    @profile_every(2)
    def often():
        return 1

    outs = [said(lambda: equal(often(), 1)) for _ in range(4)]
    equal([bool(out) for out in outs], [False, True, False, True])
    assert outs[1].startswith("## check_decorators.<locals>.often\n\nactive_bytes reserved_bytes line  code\n"), outs[1]
    equal(often.__name__, "often")
    at_exit = []
    register, atexit.register = atexit.register, lambda *call: at_exit.append(call)
    pytorch_memlab.profile(inner)()
    atexit.register = register
    ((call, *arguments),) = at_exit
    assert said(call, *arguments).startswith("## inner\n\nactive_bytes reserved_bytes line  code\n")
    global_line_profiler.disable()


def check_giving_way():
    model = torch.nn.Linear(1024, 1024).cuda()
    view = model.weight.detach()[:4]
    half = torch.ones(1000, dtype=torch.float16, device="cuda")
    model(torch.ones(2, 1024, device="cuda")).sum().backward()
    before = torch.cuda.memory_allocated()
    with Courtesy():
        equal(torch.cuda.memory_allocated() <= before - 8 * MB, True)
        equal((model.weight.device.type, model.weight.grad.device.type, half.device.type), ("cpu",) * 3)
        model.weight.data[0, 0] = 7
        equal(view[0, 0].item(), 7)
    equal(str(model.weight.device), f"cuda:{device()}")
    equal(torch.cuda.memory_allocated(), before)
    equal((view.data_ptr(), half.dtype), (model.weight.data_ptr(), torch.float16))
