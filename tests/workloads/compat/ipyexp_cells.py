"""The cell logger in IPython: the cells that are reported, and their figures."""

import random
import time

import numpy
import simulator
import torch
from checking import MB, PRELOADED, SLOW, equal, said
from ipyexp_shell import CELL, gpu, run, shape, shell

ENDS = "del experiment"


def total():
    return simulator.books()["devices"][torch.cuda.current_device()]["physical"]["current"] // MB


def check_only_the_cell_logger():
    out = run("experiment = IPyExperimentsPytorch(exp_enable=False)")
    device = torch.cuda.current_device()
    equal(shape(out), ["", "*** Experiment started with the Pytorch backend",
                       f"Device: ID {device}, gpumem simulated GPU (16384 RAM)", "", *CELL])
    equal(type(shell.user_ns["experiment"].cl).__name__, "CellLogger")
    out = run("x = held(64)")
    equal((shape(out), gpu(out)), (CELL, [(64, 0, total())]))
    out = run("del x")
    equal(gpu(out), [(-64, 0, total())])
    equal(shape(run("result = experiment.finish()")), CELL)
    equal((shell.user_ns["result"], shell.user_ns["experiment"].cl), (None, None))
    equal(run("y = 1", ENDS), "")


def check_neither():
    out = run("experiment = IPyExperimentsCPU(exp_enable=False, cl_enable=False)")
    equal(out, "\n*** Experiment started with the CPU-only backend\n\n")
    equal(shell.user_ns["experiment"].cl, None)
    equal(run(ENDS), "")


def check_data_before_the_first_cell():
    from ipyexperiments.cell_logger import CellLogger, CellLoggerData, CellLoggerMemory, CellLoggerTime

    zeros = CellLoggerData(CellLoggerMemory(0, 0, 0), CellLoggerMemory(0, 0, 0), CellLoggerTime(0))
    equal(CellLogger().data, zeros)
    equal(repr(zeros.gpu), "CellLoggerMemory(used_delta=0, peaked_delta=0, used_total=0)")
    equal(repr(zeros.time), "CellLoggerTime(time_delta=0)")


def check_data_of_the_last_cell():
    run("experiment = IPyExperimentsPytorch(exp_enable=False)")
    begun = time.monotonic()
    run("x = held(64)", "y = held(32)", "del y")
    took = time.monotonic() - begun
    run("data = experiment.cl.data")
    cpu, card, seconds = shell.user_ns["data"]
    equal(card[:2], (64 * MB, 32 * MB))
    equal(card.used_total // MB, total())
    assert cpu.used_total > 0 and 0 < seconds.time_delta < took, (cpu, seconds, took)
    run("del x")
    run(ENDS)


def check_starting_and_stopping():
    run("experiment = IPyExperimentsPytorch(exp_enable=False)")
    equal(shape(run("experiment.cl.stop()")), CELL)
    equal(run("x = held(16)"), "")
    equal(run("experiment.cl.stop()"), "")
    equal(shape(run("started = experiment.cl.start()")), CELL)
    assert shell.user_ns["started"] is shell.user_ns["experiment"].cl
    equal(gpu(run("y = held(16)")), [(16, 0, total())])
    run("del x, y, started")
    equal(shape(run(ENDS)), CELL)
    equal(run("y = 1"), "")


def check_a_cache_is_not_consumption():
    """Made and deleted, PyTorch keeps 64 MB in its pool; without garbage collection as well."""
    for collect in (True, False):
        run(f"experiment = IPyExperimentsPytorch(cl_gc_collect={collect})")
        before = total()
        out = run("x = held(64)", "del x")
        equal(gpu(out), [(0, 64, before)])
        run("x = held(64)", "del x", "data = experiment.data")
        equal(shell.user_ns["data"].gpu.consumed, 0)
        out = run("x = held(64)", "del x", "experiment.print_state()")
        assert f"\nGPU: {before:7,} {16384 - before:7,}  16,384 MB" in out, (out, before)
        out = run(ENDS)
        assert f"\nGPU: {0:8} {0:8} MB (100.00%)\n" in out, out


def check_garbage():
    """A cycle's memory is the cell's only where garbage is not collected."""
    for collect, kept in ((True, 0), (False, 64)):
        run(f"experiment = IPyExperimentsPytorch(exp_enable=False, cl_gc_collect={collect})")
        out = run("cycle = [held(64)]", "cycle.append(cycle)", "import gc; gc.disable()", "del cycle")
        equal(gpu(out)[0][0], kept)
        run("gc.enable(); gc.collect()", ENDS)


def check_seeds():
    """Each cell starts from the seed, the one that starts the logger too."""
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = False, True
    values = ("import random, numpy", "values = (random.random(), numpy.random.random(), torch.rand(1).item())")
    run("experiment = IPyExperimentsPytorch(exp_enable=False, cl_set_seed=42, cl_compact=True)", *values)
    first = shell.user_ns["values"]
    run(*values)
    equal(shell.user_ns["values"], first)
    random.seed(42)
    numpy.random.seed(42)
    torch.manual_seed(42)
    equal(first, (random.random(), numpy.random.random(), torch.rand(1).item()))
    equal((torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark), (True, False))
    run(ENDS)


def check_set_seed():
    from ipyexperiments.cell_logger import set_seed

    torch.backends.cudnn.deterministic = False
    state = random.getstate()
    set_seed()
    equal((random.getstate() == state, torch.backends.cudnn.deterministic), (True, False))
    set_seed(3)
    equal((torch.initial_seed(), torch.cuda.initial_seed()), (3, 3))
    equal(torch.backends.cudnn.deterministic, True)


def check_captured_cells():
    """A cell that `%%capture` runs is reported within; then the cell that has `%%capture` in it."""
    run("experiment = IPyExperimentsPytorch(exp_enable=False)")
    out = run("%%capture output", "x = held(64)")
    equal((shape(out), gpu(out)), (CELL, [(64, 0, total())]))
    within = str(shell.user_ns["output"])
    equal((shape(within), gpu(within)), (CELL, [(64, 0, total())]))
    equal(shell.user_ns["experiment"].cl.data.gpu.used_delta, 64 * MB)
    run("del x")
    run(ENDS)
    out = run("%%capture output", "experiment = IPyExperimentsPytorch(exp_enable=False)", "x = held(32)")
    equal((shape(out), gpu(out)), (CELL, [(32, 0, total())]))
    equal(run("%%capture output", "del x, experiment"), "")
    equal(shape(str(shell.user_ns["output"])), CELL)


def check_a_failing_cell():
    run("experiment = IPyExperimentsPytorch(exp_enable=False)")
    out = said(shell.run_cell, "x = held(64)\nraise KeyError('mine')", store_history=True)
    equal(gpu(out), [(64, 0, total())])
    run("del x")
    run(ENDS)


def check_the_device_of_the_experiment():
    """It stays that of the start, whichever is current later."""
    run("experiment = IPyExperimentsPytorch(exp_enable=False)")
    used = total()
    other = 0
    run(f"torch.cuda.set_device({other})")
    out = run("x = held(64)")
    here = torch.cuda.device_count() == 1
    equal(gpu(out), [(64, 0, used + 64)] if here else [(0, 0, used)])
    torch.cuda.set_device(torch.cuda.device_count() - 1)
    run("del x", ENDS)


def check_short_peaks():
    """Where peaks are sampled and the driver is quick, a peak that PyTorch's pool does not keep can be missed."""
    run("experiment = IPyExperimentsPytorch(exp_enable=False)")
    out = run("x = held(64)", "del x", "torch.cuda.empty_cache()")
    if PRELOADED or SLOW:
        equal(gpu(out), [(0, 64, total())])
    run(ENDS)


def check_methods_of_the_logger():
    run("experiment = IPyExperimentsPytorch(exp_enable=False)")
    logger = shell.user_ns["experiment"].cl
    x = shell.user_ns["held"](64)
    del x  # stays in PyTorch's pool
    equal(logger.gpu_ram(), (16384 * MB, (16384 - total()) * MB, total() * MB))
    equal((logger.gpu_ram_used(), logger.gpu_ram_avail()), (total() * MB, (16384 - total()) * MB))
    equal((logger.backend, logger.compact, logger.gc_collect, logger.set_seed, logger.running),
          ("pytorch", False, True, 0, True))
    equal(logger.gpu_ram_used_fast(None), 0)
    equal(logger.time_delta, logger.data.time.time_delta)
    del logger
    run(ENDS)
