"""Features inside IPython: cells, exceptions that hold no memory, reduce_mem_usage; no framework."""

import os
import sys
import weakref

from checking import MB, PRELOADED, equal, said
from IPython.core.interactiveshell import InteractiveShell

import gpumem.compat

shell = InteractiveShell.instance()
gpumem.compat.install()

import simulator  # noqa: E402
from fastai.utils import ipython, mem  # noqa: E402
from ipyexperiments import CellLogger, IPyExperimentsPytorch  # noqa: E402
from ipyexperiments.utils.mem import gpu_mem_allocate_mbs, preload_pytorch  # noqa: E402

assert "torch" not in sys.modules
preload_pytorch()


class Held:
    """Stands for a tensor."""


def raising(decorate, text):
    """Runs a cell whose function fails with a local variable; returns whether that is still held."""
    references = []

    @decorate
    def fails(unused=None):
        local = Held()
        references.append(weakref.ref(local))
        raise RuntimeError(text)

    shell.user_ns["fails"] = fails
    result = []
    said(lambda: result.append(shell.run_cell("fails()")))
    error = result[0].error_in_exec
    equal((type(error), str(error)), (RuntimeError, text))
    return references[0]() is not None


def plain(function):
    return function


def check_exceptions_hold_no_memory():
    oom = "CUDA out of memory. Tried to allocate 2.00 GiB"
    os.environ.pop("FASTAI_TB_CLEAR_FRAMES", None)
    equal(raising(plain, oom), True)
    equal(raising(mem.gpu_mem_restore, oom), False)
    equal(raising(mem.gpu_mem_restore, "device-side assert triggered"), False)
    equal(raising(mem.gpu_mem_restore, "something else"), True)
    os.environ["FASTAI_TB_CLEAR_FRAMES"] = "0"
    equal(raising(mem.gpu_mem_restore, oom), True)
    os.environ["FASTAI_TB_CLEAR_FRAMES"] = "1"
    equal(raising(mem.gpu_mem_restore, "something else"), False)
    del os.environ["FASTAI_TB_CLEAR_FRAMES"]
    equal((ipython.is_in_ipython(), ipython.is_in_notebook(), ipython.is_in_colab()), (True, False, False))


def check_the_context_manager():
    def within(function):
        def run():
            with mem.gpu_mem_restore_ctx():
                function()

        return run

    equal(raising(within, "anything"), False)


def check_what_led_to_an_error_is_cleared():
    references = []

    def fails():
        local = Held()
        references.append(weakref.ref(local))
        raise KeyError("first")

    try:
        try:
            fails()
        except KeyError as error:
            raise RuntimeError("then") from error
    except RuntimeError:
        kind, error, trace = ipython.get_ref_free_exc_info()
        equal((kind, str(error), trace is error.__traceback__), (RuntimeError, "then", True))
        equal(references[0](), None)


def check_cells_are_seen():
    logger = CellLogger(compact=True)
    logger.start()
    shell.user_ns["allocate"] = gpu_mem_allocate_mbs
    out = said(shell.run_cell, "x = allocate(64)")
    assert "GPU: 64/0/" in out and out.endswith("(Consumed/Peaked/Used Total)\n"), out
    out = said(shell.run_cell, "y = allocate(128); del y")
    if PRELOADED:
        assert "GPU: 0/128/" in out, out
    out = said(shell.run_cell, "del x")
    assert "GPU: -64/0/" in out, out
    logger.stop()
    equal(said(shell.run_cell, "y = 1"), "")


def check_an_experiment_by_del():
    shell.user_ns["Experiment"] = IPyExperimentsPytorch
    out = said(shell.run_cell, "experiment = Experiment()")
    assert "*** Experiment started with the Pytorch backend" in out, out
    out = said(shell.run_cell, "x = allocate(64)")
    assert "･ GPU:         64          0" in out, out
    out = said(shell.run_cell, "del experiment")
    assert "Deleted: x\n" in out and f"GPU: {64:8,} {64:8,} MB (100.00%)\n" in out, out
    assert "x" not in shell.user_ns and "allocate" in shell.user_ns
    equal(said(shell.run_cell, "y = 1"), "")


def check_smaller_types():
    import pandas

    frame = pandas.DataFrame({
        "small": [1, -2, 3], "limit": [127, -128, 0], "beyond": [128, 0, 0], "unsigned": [0, 1, 65535],
        "huge": [2**40, 0, 1], "halves": [0.5, 1.5, None], "thirds": [1 / 3, 2.5, 1e30], "wide": [1e300, 0.0, 1.0],
        "text": ["a", "b", "a"], "flag": [True, False, True], "mixed": ["a", 1, None],
    }).astype({"text": object, "mixed": object, "unsigned": "uint64"})
    before = frame.copy()
    results = []
    out = said(lambda: results.append(mem.reduce_mem_usage(frame)))
    smaller = results[0]
    equal({name: str(kind) for name, kind in smaller.dtypes.items()}, {
        "small": "int8", "limit": "int8", "beyond": "int16", "unsigned": "uint16", "huge": "int64",
        "halves": "float16", "thirds": "float32", "wide": "float64", "text": "category", "flag": "bool",
        "mixed": "object",
    })
    for name in ("small", "limit", "beyond", "unsigned", "huge", "wide", "flag"):
        assert (smaller[name] == before[name]).all(), name
    lines = out.splitlines()
    assert lines[0].startswith("Memory usage of dataframe is 0.00 MB") and lines[2].startswith("Decreased by "), out


def check_the_card_is_as_it_was():
    assert simulator.books()["devices"][0]["driver"]["current"] <= 64 * MB
