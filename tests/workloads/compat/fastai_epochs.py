"""fastai: memory by epoch, the names of a star import, the names around `utils.mem`. CUDA is not started before."""

import gc
import sys
import tracemalloc
import types
import weakref

import torch
from checking import MB, PRELOADED, equal, said

import gpumem.compat
from gpumem._inside import sampler

gpumem.compat.install()

import fastai  # noqa: E402
from fastai.callbacks.cpu_mem import CpuPeakMemMetric  # noqa: E402
from fastai.callbacks.mem import PeakMemMetric  # noqa: E402
from fastai.utils import ipython, mem, pynvml_gate  # noqa: E402

kept = []


class Recorder:
    def __init__(self):
        self.columns = []

    def add_metric_names(self, names):
        self.columns += names


class Learner:
    """As much of fastai's as its callbacks use."""

    def __init__(self):
        self.recorder = Recorder()

    def fit(self, callback, epochs, work):
        rows = []
        callback.on_train_begin(epochs=epochs, metrics=[])
        for epoch in range(epochs):
            callback.on_epoch_begin(epoch=epoch)
            callback.on_batch_begin(train=True)
            work(epoch)
            rows.append(callback.on_epoch_end(last_metrics=[epoch], epoch=epoch)["last_metrics"])
        callback.on_train_end(exception=None)
        return rows


def trained(epoch):
    """64 MB and a small tensor that stay after the first epoch, and 256 MB temporarily in each."""
    if epoch == 0:
        kept.extend([torch.empty(64 * MB, dtype=torch.uint8, device="cuda"), torch.ones(1, device="cuda")])
    torch.empty(256 * MB, dtype=torch.uint8, device="cuda")


def check_memory_by_epoch():
    """Neither what starting CUDA costs nor what is cached is an epoch's."""
    assert not torch.cuda.is_initialized()
    learner = Learner()
    rows = learner.fit(PeakMemMetric(learner), 3, trained)
    equal(learner.recorder.columns, ["cpu used", "peak", "gpu used", "peak"])
    equal([row[0] for row in rows], [0, 1, 2])
    # The small tensor is in the block of 2 MB that starting CUDA has left in the pool, or in a separate one.
    figures = [row[3:] for row in rows]
    assert figures[0][0] in (64, 66), rows
    equal([row[0] for row in figures[1:]], [0, 0])
    peaks = [row[1] for row in figures]
    if PRELOADED:
        equal(peaks, [256] * 3)
    else:
        assert all(0 <= peak <= 256 for peak in peaks), rows
    kept.clear()
    torch.cuda.empty_cache()


def allocated(epoch):
    if epoch == 0:
        kept.append(bytearray(32 * MB))
    bytearray(16 * MB)


def check_python_memory_by_epoch():
    learner = Learner()
    rows = learner.fit(PeakMemMetric(learner), 2, allocated)
    equal([row[1:] for row in rows], [[32, 48, 0, 0], [0, 16, 0, 0]])
    kept.clear()
    learner = Learner()
    rows = learner.fit(CpuPeakMemMetric(learner), 2, allocated)
    equal(learner.recorder.columns, ["cpu used", "cpu_peak"])
    equal([[round(figure) for figure in row[1:]] for row in rows], [[32, 48], [0, 16]])
    assert all(isinstance(figure, float) for figure in rows[0][1:])
    kept.clear()
    assert not tracemalloc.is_tracing()


def check_the_programs_own_tracing_goes_on():
    tracemalloc.start()
    try:
        before = bytearray(8 * MB)
        rows = Learner().fit(PeakMemMetric(), 1, allocated)
        equal(rows[0][1:3], [32, 48])
        assert tracemalloc.is_tracing() and tracemalloc.get_traced_memory()[0] >= 40 * MB
        del before
    finally:
        tracemalloc.stop()
        kept.clear()


def check_a_callback_keeps_no_learner():
    learner = Learner()
    gone = weakref.ref(learner)
    callback = PeakMemMetric(learner)
    assert callback.learn is learner
    gc.disable()
    del learner
    gc.enable()
    equal((gone(), callback.learn), (None, None))
    equal(PeakMemMetric().learn, None)
    equal((callback.on_loss_begin(last_output=1), callback._order), (None, -20))
    assert not hasattr(callback, "anything_else")


def brought(module):
    names = {}
    exec(f"from {module} import *", names)
    return names


def check_a_star_import():
    names = brought("fastai.utils.mem")
    import numpy

    wanted = {"torch": torch, "np": numpy, "gc": gc, "sys": sys, "F": torch.nn.functional, "nn": torch.nn,
              "optim": torch.optim, "Tensor": torch.Tensor, "DataLoader": torch.utils.data.DataLoader}
    for name, value in wanted.items():
        assert names[name] is value, name
    for name in ("re", "os", "time", "threading", "functools", "namedtuple", "partial", "Path", "warn", "json", "math",
                 "load_pynvml_env", "GPUMemTrace", "GPUMemory", "use_gpu", "preload_pytorch", "reduce_mem_usage"):
        assert name in names, name
    assert "pd" not in names, "pandas is not installed here"
    assert names["np"].array is names["array"]
    for module in ("fastai.callbacks.mem", "fastai.callbacks.cpu_mem"):
        names = brought(module)
        assert names["torch"] is torch and names["gc"] is gc and "gpu_mem_get" in names
    assert "PeakMemMetric" in brought("fastai.callbacks.mem")
    assert "CpuPeakMemMetric" in brought("fastai.callbacks.cpu_mem")
    older = brought("gpumem.compat.fastai.utils.mem_older")
    assert older["torch"] is torch and "gpu_mem_trace" not in older
    equal(repr(older["GPUMemTrace"]()), "△used: 0MB, △peaked: 0MB")
    try:
        mem.anything_else
    except AttributeError as error:
        equal(str(error), "module 'fastai.utils.mem' has no attribute 'anything_else'")
    else:
        raise AssertionError("there is no such name")


def check_names_around():
    equal(fastai.__version__, "1.0.61")
    equal((ipython.IS_IN_IPYTHON, ipython.IS_IN_COLAB), (False, False))
    trace = mem.GPUMemTrace()
    equal(trace.is_running, True)
    trace.stop()
    equal(trace.is_running, False)
    trace.start()
    equal(trace.is_running, True)
    calls = []
    sys.modules["pynvml"] = stub = types.ModuleType("pynvml")
    stub.nvmlInit = lambda: calls.append(1)
    try:
        assert pynvml_gate.load_pynvml_env() is stub
    finally:
        del sys.modules["pynvml"]
    equal(calls, [1])


def check_dropped_traces_are_not_sampled_any_more():
    gc.collect()
    before = len(sampler._open)
    gc.disable()
    try:
        for _ in range(5):
            mem.GPUMemTrace()
        equal(len(sampler._open), before)
    finally:
        gc.enable()


class Held:
    """Stands for a tensor."""


def is_held_after(call):
    """Whether the local variable of a function that failed is held while its error is."""
    references = []

    def fails():
        local = Held()
        references.append(weakref.ref(local))
        raise RuntimeError("CUDA out of memory")

    try:
        call(fails)
    except RuntimeError as error:
        equal(str(error), "CUDA out of memory")
        return references[0]() is not None
    raise AssertionError("it fails")


def within(fails):
    with mem.gpu_mem_restore_ctx():
        fails()


def check_exceptions_outside_of_ipython():
    """The block is always cleared; the decorator leaves errors unchanged unless it is set to IPython."""
    equal(is_held_after(within), False)
    equal(is_held_after(lambda fails: mem.gpu_mem_restore(fails)()), True)
    ipython.IS_IN_IPYTHON = True
    try:
        equal(is_held_after(lambda fails: mem.gpu_mem_restore(fails)()), False)
    finally:
        ipython.IS_IN_IPYTHON = False


def check_the_reports_of_the_older_era():
    older = brought("gpumem.compat.fastai.utils.mem_older")
    trace = older["GPUMemTrace"]()
    x = torch.empty(10 * MB, dtype=torch.uint8, device="cuda")
    figures = "△used: {}MB, △peaked: {}MB".format(*trace.data())
    equal(said(trace.report, "whoah"), f"{figures}: whoah\n")
    equal(said(trace.report), f"{figures}\n")
    equal(said(trace.report_n_reset, note="2nd"), f"{figures}: 2nd\n")
    equal(repr(trace), "△used: 0MB, △peaked: 0MB")
    trace.silent = True
    equal(said(trace.report, "whoah"), "")
    del x
