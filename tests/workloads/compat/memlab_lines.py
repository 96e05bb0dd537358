"""pytorch_memlab's LineProfiler: memory allocated and freed in a line, the line's card, and invalid arguments."""

import sys
import warnings

import torch
from checking import MB, equal, said

import gpumem.compat

gpumem.compat.install()

import pytorch_memlab  # noqa: E402
from pytorch_memlab import (  # noqa: E402
    LineProfiler, clear_global_line_profiler, profile, profile_every, set_target_gpu,
)
from pytorch_memlab.line_profiler import profile as decorator  # noqa: E402
from pytorch_memlab.line_profiler.profile import atexit, global_line_profiler  # noqa: E402
from pytorch_memlab.utils import readable_size  # noqa: E402

torch.ones(1).cuda()
torch.cuda.empty_cache()
ALLOCATED, FREED = "allocated_bytes.all.allocated", "allocated_bytes.all.freed"


def held(size, card=None):
    return torch.empty(size, dtype=torch.uint8, device="cuda" if card is None else f"cuda:{card}")


def inner():
    held(3 * MB)


def work():
    x = held(4 * MB)
    for _ in range(3):
        inner()
    del x


def rows(profiler, function, *columns):
    """The figures of the lines of a function, from its first on; None for a line that did not run."""
    (table,) = profiler.display(function, columns=columns).tables
    lines = range(table.first, table.first + len(table.lines))
    found = [table.figures.get(line) for line in lines]
    return [row and [row[column] for column in columns] for row in found]


def profiled(*functions, **options):
    with LineProfiler(*functions, **options) as profiler:
        for function in functions[:1]:
            function()
    return profiler


def check_what_came_and_went_in_a_line():
    profiler = profiled(work, inner)
    equal(rows(profiler, work, ALLOCATED, FREED, "allocation.all.allocated"), [
        [0, 0, 0], [4 * MB, 0, 1], [0, 0, 0], [3 * MB, 3 * MB, 1], [0, 4 * MB, 0]])
    equal(rows(profiler, inner, ALLOCATED, FREED), [[0, 0], [3 * MB, 3 * MB]])
    before = torch.cuda.memory_stats()[ALLOCATED]
    assert before > 7 * MB, "PyTorch's counters go on"


def check_peaks_that_pytorch_has_one_counter_for():
    """The real peak where a line raises the counter, otherwise the greater of before and after."""
    torch.cuda.reset_peak_memory_stats()
    profiler = profiled(work, inner)
    base = torch.cuda.memory_stats()["active.all.current"]
    equal([row[0] - base for row in rows(profiler, work, "active.all.peak")], [0, 1, 1, 2, 1])


def check_documented_head_of_columns_that_begin_alike():
    profiler = profiled(inner)
    first = inner.__code__.co_firstlineno
    equal(repr(profiler.display(columns=(ALLOCATED, FREED, "allocation.all.freed"))).split("\n"), [
        "## inner",
        "",
        "allocated_bytes       allocation line  code",
        "            all              all",
        "      allocated freed      freed",
        f"          0.00B 0.00B          0 {first:4}  def inner():",
        f"          3.00M 3.00M          1 {first + 1:4}      held(3 * MB)",
        "",
    ])


def refused(call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except ValueError as error:
        return str(error)
    raise AssertionError("no error")


def check_columns_that_there_are_not():
    profiler = profiled(inner)
    for columns in (["active_bytes.all"], ["nothing"], ["active_bytes.all.peak", "a.b.c.d"]):
        equal(refused(profiler.display, columns=columns), "Each column name should have three dot-separated parts")
    text = refused(profiler.print_stats, columns=["active_bytes.all.nothing"])
    assert text.startswith("The column names should be fields of torch.cuda.memory_stat(). Options are: active."), text
    assert ALLOCATED in text and "num_ooms" not in text, text
    equal(rows(profiler, inner, "num_ooms")[0][0], torch.cuda.memory_stats()["num_ooms"])
    # Nothing is known of columns before there are figures.
    equal(repr(LineProfiler(inner).display(columns=["nothing"])), "No data collected\n")


def check_no_data():
    profiler = LineProfiler(work)
    equal(said(profiler.print_stats), "No data collected\n")
    equal(profiler.display()._repr_html_(), "<p>No data collected</p>")
    profiler = profiled(inner, work)
    equal(said(profiler.print_stats, work), "No data collected\n")
    equal([table.name for table in profiler.display().tables], ["inner"])


def check_functions_by_name():
    profiler = profiled(work, inner)
    for chosen, names in ((work, ["work"]), ("inner", ["inner"]), (["work", "inner"], ["work", "inner"]), ("w", [])):
        equal([table.name for table in profiler.display(chosen).tables], names)


def check_what_has_no_code():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        profiler = LineProfiler(print, inner)
        profiler.add_function(torch.nn.Linear)
    equal([str(one.message) for one in caught], [
        f"Could not extract a code object for the object {thing!r}" for thing in (print, torch.nn.Linear)])
    equal([one.filename for one in caught][1], __file__)
    with profiler:
        inner()
    equal([table.name for table in profiler.display().tables], ["inner"])


def check_caches_are_emptied_at_the_start():
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    held(512 * MB)
    assert torch.cuda.memory_reserved() >= 512 * MB
    last = rows(profiled(inner), inner, "reserved_bytes.all.peak")[-1][0]
    assert last <= before + 20 * MB, (last, before)  # 20 MB is the minimum that PyTorch requests
    torch.cuda.empty_cache()


def check_clearing():
    profiler = profiled(inner)
    profiler.clear()
    with profiler:
        inner()
    equal(said(profiler.print_stats), "No data collected\n")
    profiler.add_function(inner)
    with profiler:
        inner()
        profiler.clear()
        inner()
    equal(said(profiler.print_stats), "No data collected\n")


def check_the_card_can_be_changed_on_the_way():
    """Each line is charged to the card that was current when it ended."""
    if torch.cuda.device_count() < 2:
        return
    clear_global_line_profiler()
    set_target_gpu(0)

    at_exit = []
    register, atexit.register = atexit.register, lambda *call: at_exit.append(call)

    @profile
    def changes():
        x = held(4 * MB, 0)  # noqa: F841
        set_target_gpu(1)
        y = torch.nn.Linear(1000, 100).cuda(1)  # noqa: F841
        z = held(8 * MB, 0)  # noqa: F841
        set_target_gpu(torch.device("cuda", 0))
        w = held(16 * MB, 1)  # noqa: F841

    atexit.register = register
    changes()
    first = changes.__code__.co_firstlineno
    base = torch.cuda.memory_allocated(0)
    found = rows(global_line_profiler, changes, "active_bytes.all.peak")
    equal(found[:2], [[base], None])
    equal([row[0] for row in found[2:]], [base + 4 * MB, 0, 391.5 * 1024, 391.5 * 1024, base + 12 * MB, base + 12 * MB])
    ((call, *arguments),) = at_exit
    out = said(call, *arguments)
    assert f"     391.50K          2.00M {first + 4:4}          y = torch.nn.Linear(1000, 100).cuda(1)" in out, out
    assert out.startswith("## check_the_card_can_be_changed_on_the_way.<locals>.changes\n\n"), out
    equal(out.count("##"), 1)
    clear_global_line_profiler()


def check_how_a_card_is_named():
    last = torch.cuda.device_count() - 1
    function = {}
    exec(f"def work():\n    x = held({MB}, {last})\n    del x\n", {"held": held}, function)
    for target in (last, f"cuda:{last}", torch.device("cuda", last), [torch.device("cuda", last)]):
        profiler = LineProfiler(function["work"], target_gpu=target)
        with profiler:
            function["work"]()
        (table,) = profiler.display(columns=[ALLOCATED]).tables
        equal(table.figures[2][ALLOCATED], MB)
        equal(table.name, f"work on GPU {last}" if isinstance(target, list) else "work")
    profiler = LineProfiler(inner, target_gpu="cuda")
    with profiler:
        inner()
    equal(rows(profiler, inner, ALLOCATED)[1], [3 * MB])


def check_functions_that_are_added_after_tracing_was_stopped():
    """Before Python 3.12 another tool can take the trace function away."""
    earlier = sys.gettrace()
    with LineProfiler(work) as profiler:
        sys.settrace(None)
        profiler.add_function(inner)
        inner()
    sys.settrace(earlier)
    equal(rows(profiler, inner, ALLOCATED), [[0], [3 * MB]])


def check_calls_that_fail_are_not_counted():
    clear_global_line_profiler()

    @profile_every(2)
    def sometimes(good):
        if not good:
            raise KeyError

    def call(good):
        try:
            sometimes(good)
        except KeyError:
            pass

    outs = [said(call, good) for good in (True, False, True, True, True)]
    equal([bool(out) for out in outs], [False, False, True, False, True])

    @profile_every(1, enable=False)
    def never():
        return 5

    equal(said(lambda: equal(never(), 5)), "")
    clear_global_line_profiler()
    global_line_profiler.disable()


def check_names():
    assert decorator is profile is pytorch_memlab.profile and callable(profile)
    sizes = {0: "0.00B", 1023: "1023.00B", 40 * 1024: "40.00K", 2 * MB: "2.00M", 3 * 2**30: "3.00G",
             2**41: "2.00T", 2**51: "2.00P", -MB: "-1.00M", float("nan"): ""}
    equal({size: readable_size(size) for size in sizes}, sizes)
