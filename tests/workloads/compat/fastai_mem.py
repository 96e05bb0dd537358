"""fastai.utils.mem, both eras: the printed shapes to the byte, the figures against what was allocated."""

import os
import warnings

import torch
from checking import MB, PRELOADED, equal, said

import gpumem.compat

gpumem.compat.install()

import simulator  # noqa: E402
from fastai.utils import mem  # noqa: E402
from fastai.utils.mem import GPUMemory, GPUMemTrace, gpu_mem_trace  # noqa: E402

from gpumem.compat.fastai.utils import mem_older  # noqa: E402

DEVICES = torch.cuda.device_count()


def held(megabytes):
    return torch.empty(megabytes * MB, dtype=torch.uint8, device="cuda")


def exactly(found, wanted):
    """Peaks are exact with the hooks; sampled ones are at most that, and never negative."""
    if PRELOADED:
        equal(found, wanted)
    else:
        assert found[0] == wanted[0] and 0 <= found[1] <= wanted[1], (found, wanted)


def some_code():
    pass


def check_it_says_once_where_peaks_come_from():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sources = {GPUMemTrace().source, GPUMemTrace().source}
    ours = [str(one.message) for one in caught if issubclass(one.category, RuntimeWarning)]
    if PRELOADED:
        equal((sources, ours), ({"hooks"}, []))
    else:
        equal((sources, len(ours)), ({"sampled"}, 1))
        assert "sampled" in ours[0] and "gpumem run" in ours[0], ours
        assert caught[0].filename == __file__, caught[0].filename


def check_what_the_card_has():
    equal(mem.preload_pytorch(), None)
    device = torch.cuda.current_device()
    books = simulator.books()["devices"][device]
    used = books["physical"]["current"]
    total = books["total_bytes"]
    equal(mem.gpu_mem_get(), GPUMemory(total // MB, (total - used) // MB, used // MB))
    equal(repr(mem.gpu_mem_get()), f"GPUMemory(total={total // MB}, free={(total - used) // MB}, used={used // MB})")
    equal(len(mem.gpu_mem_get_all()), DEVICES)
    equal(mem.gpu_mem_get_all()[device], mem.gpu_mem_get(device))
    equal([mem.gpu_mem_get(-1), mem.gpu_mem_get(99)], [GPUMemory(0, 0, 0)] * 2)
    equal((mem.gpu_mem_get_free(), mem.gpu_mem_get_used()), mem.gpu_mem_get()[1:])
    equal(mem.gpu_with_max_free_mem()[0], DEVICES - 1)
    equal((mem.b2mb(2.9 * MB), mem.b2mb(-2.9 * MB)), (2, -2))
    equal(mem.use_gpu, True)


def check_caches_are_emptied():
    before = mem.gpu_mem_get_used_no_cache()
    x = held(64)
    del x
    equal(mem.gpu_mem_get_used() - before, 64)
    equal(mem.gpu_mem_get_used_no_cache() - before, 0)
    equal(mem.gpu_mem_get_free_no_cache(), mem.gpu_mem_get_free())


def check_a_handle():
    from gpumem._machine import devices

    handle = devices.find(torch.cuda.current_device()).handle
    equal(mem.gpu_mem_get_used_fast(handle), mem.gpu_mem_get_used())


def check_documented_reports():
    trace = GPUMemTrace()
    some_code()
    equal(said(trace.report), "△Used Peaked MB:      0      0\n")
    equal(trace.data(), (0, 0))
    equal(said(trace.report, "2nd run of some_code()"), "△Used Peaked MB:      0      0 (2nd run of some_code())\n")
    trace.reset()
    lines = [said(trace.report_n_reset, f"i={i}") for i in range(3)]
    equal(lines, [f"△Used Peaked MB:      0      0 (i={i})\n" for i in range(3)])
    trace = GPUMemTrace(ctx="foobar")
    equal(said(trace.report), "△Used Peaked MB:      0      0 (foobar)\n")
    equal(said(trace.report, "1st try"), "△Used Peaked MB:      0      0 (foobar: 1st try)\n")


def check_silence():
    trace = GPUMemTrace(silent=True)
    line = "△Used Peaked MB:      0      0\n"
    equal(said(trace.report), "")
    trace.silent = False
    equal(said(trace.report), line)
    trace.silent = True
    equal(said(trace.report_n_reset), "")
    trace.silent(silent=False)
    equal(said(trace.report), line)
    trace.silent()
    equal((said(trace.report), bool(trace.silent)), ("", True))


def check_contexts():
    def block(**options):
        with GPUMemTrace(**options):
            pass

    equal(said(block), "△Used Peaked MB:      0      0 (exit)\n")
    equal(said(block, ctx="some context"), "△Used Peaked MB:      0      0 (some context: exit)\n")
    equal(said(block, ctx="some_func", on_exit_report=False), "")
    with GPUMemTrace(ctx="some_func", on_exit_report=False) as trace:
        some_code()
    equal(said(trace.report, "measured in ctx"), "△Used Peaked MB:      0      0 (some_func: measured in ctx)\n")
    with GPUMemTrace(on_exit_report=False) as trace:
        some_code()
    equal(said(print, trace), "△Used Peaked MB:      0      0\n")


def check_the_decorator():
    @gpu_mem_trace
    def experiment():
        return 1

    class Learner:
        @gpu_mem_trace
        def fit(self):
            held(64)

    out = said(lambda: equal(experiment(), 1))
    equal(out, "△Used Peaked MB:      0      0 (check_the_decorator.<locals>.experiment: exit)\n")
    if PRELOADED:
        equal(said(Learner().fit), "△Used Peaked MB:      0     64 (check_the_decorator.<locals>.Learner.fit: exit)\n")


def check_figures():
    trace = GPUMemTrace()
    x1 = held(32)
    x2 = held(48)
    del x2
    exactly(trace.data(), (32, 48))
    if PRELOADED:
        equal(said(trace.report, "whoah"), "△Used Peaked MB:     32     48 (whoah)\n")
        equal(trace.tensors(), (32 * MB, 48 * MB))
    del x1
    exactly(trace.data(), (0, 80))
    trace.reset()
    x1 = held(1024)
    exactly(trace.data(), (1024, 0))
    if PRELOADED:
        equal(repr(trace), "△Used Peaked MB:  1,024      0")
    trace.reset()
    x2 = held(64)
    del x1
    exactly(trace.data(), (64 - 1024, 64))
    del x2
    exactly(trace.data(), (-1024, 64))


def check_short_peaks():
    """What a thread that looks every millisecond misses, and nothing is ever negative."""
    for megabytes in (2, 20, 22, 64, 512):
        trace = GPUMemTrace()
        held(megabytes)
        exactly(trace.data(), (0, megabytes if megabytes > 2 else 20))


def check_it_freezes():
    trace = GPUMemTrace()
    x = held(64)
    trace.stop()
    y = held(128)
    exactly(trace.data(), (64, 0))
    trace.stop()
    exactly(trace.data(), (64, 0))
    trace.start()
    del y
    exactly(trace.data(), (-128, 0))
    del x


def check_many_at_once():
    outer = GPUMemTrace()
    x = held(64)
    inner = GPUMemTrace()
    y = held(32)
    held(128)
    exactly(inner.data(), (32, 128))
    del y
    exactly(outer.data(), (64, 160))
    del x


def check_other_counters_are_left_alone():
    torch.cuda.reset_peak_memory_stats()
    x = held(256)
    del x
    peak = torch.cuda.max_memory_allocated()
    with GPUMemTrace(silent=True):
        held(32)
    equal(torch.cuda.max_memory_allocated(), peak)


def check_another_device():
    if DEVICES < 2:
        return
    here = torch.cuda.current_device()
    other = 1 - here
    torch.cuda.set_device(other)
    try:
        mem.preload_pytorch()
        equal(mem.gpu_mem_get(), mem.gpu_mem_get(other))
        assert mem.gpu_mem_get() != mem.gpu_mem_get(here)
        trace = GPUMemTrace()
        x = held(64)
        torch.empty(512 * MB, dtype=torch.uint8, device=f"cuda:{here}")
        exactly(trace.data(), (64, 0))
        del x
    finally:
        torch.cuda.set_device(here)
    torch.cuda.empty_cache()


def check_the_older_era():
    trace = mem_older.GPUMemTrace()
    x = held(64)
    del x
    if PRELOADED:
        equal(said(trace.report), "△used: 0MB, △peaked: 64MB\n")
        equal(said(trace.report, note="2nd"), "△used: 0MB, △peaked: 64MB: 2nd\n")
        equal(said(trace.report_n_reset, "3rd"), "△used: 0MB, △peaked: 64MB: 3rd\n")
    trace.reset()
    equal(repr(trace), "△used: 0MB, △peaked: 0MB")

    def block():
        with mem_older.GPUMemTrace():
            pass

    equal(said(block), "")


def check_a_forked_child():
    """It is not recorded and gets a warning; no memory of the parent is counted as the child's."""
    trace = GPUMemTrace()
    child = os.fork()
    if child == 0:
        warnings.simplefilter("ignore")
        mine = GPUMemTrace()
        os._exit(0 if (mine.source, mine.data()[1]) == ("sampled", 0) else 1)
    equal(os.waitpid(child, 0)[1], 0)
    x = held(64)
    exactly(trace.data(), (64, 0))
    del x
