"""`utils.ipython` in IPython: errors that hold no memory; and the modules and names that programs import."""

import sys
import types
import weakref

import ipyexp_shell
import torch
from checking import equal, said
from ipyexp_shell import shell
from ipyexperiments.utils import ipython, mem


class Held:
    """Stands for a tensor."""


class Picky(Exception):
    """An error whose constructor wants more than a message."""

    def __init__(self, code, detail):
        super().__init__(f"{code}: {detail}")
        self.code = code


def fails_in(wrap, error):
    """Runs a cell whose wrapped function fails; the error that arrives, and whether a local is still held."""
    references = []

    def function(argument):
        local = Held()
        references.append(weakref.ref(local))
        references.append(weakref.ref(argument))
        raise error

    shell.user_ns["fails"] = wrap(function)
    shell.user_ns["Held"] = Held
    results = []
    said(lambda: results.append(shell.run_cell("fails(Held())")))
    return results[0].error_in_exec, [reference() is not None for reference in references]


def in_context(function):
    def run(argument):
        with ipython.ipython_tb_clear_frames_ctx():
            passed, argument_ = argument, None
            del argument
            try:
                function(passed)
            finally:
                del passed, argument_

    return run


def check_errors_hold_no_memory():
    for error in (RuntimeError("any"), Picky(3, "three"), KeyboardInterrupt()):
        equal(fails_in(lambda function: function, error), (error, [True, True]))
        error.__traceback__ = None
        equal(fails_in(ipython.ipython_tb_clear_frames, error), (error, [False, False]))
        equal(fails_in(in_context, error), (error, [False, False]))


def check_the_error_itself_arrives():
    error, _ = fails_in(ipython.ipython_tb_clear_frames, Picky(3, "three"))
    equal((type(error), str(error), error.code), (Picky, "3: three", 3))


def check_what_led_to_an_error_holds_none():
    references = []

    def first():
        local = Held()
        references.append(weakref.ref(local))
        raise KeyError("first")

    @ipython.ipython_tb_clear_frames
    def then():
        try:
            first()
        except KeyError as error:
            raise RuntimeError("then") from error

    try:
        then()
    except RuntimeError as error:
        equal((references[0](), repr(error.__cause__)), (None, "KeyError('first')"))


def check_without_an_error():
    @ipython.ipython_tb_clear_frames
    def adds(a, b=1):
        """Adds."""
        return a + b

    equal((adds(1), adds(1, b=2), adds.__name__, adds.__doc__), (2, 3, "adds", "Adds."))
    with ipython.ipython_tb_clear_frames_ctx() as entered:
        assert isinstance(entered, ipython.ipython_tb_clear_frames_ctx)


def check_is_in_ipython():
    equal((ipython.is_in_ipython(), ipython.IS_IN_IPYTHON), (True, True))


def check_star_imports():
    found = {}
    exec("from ipyexperiments import *", found)
    equal(sorted(name for name in found if name != "__builtins__"), [
        "IPyExperiments", "IPyExperimentsCPU", "IPyExperimentsGPU", "IPyExperimentsPytorch",
        "cell_logger", "ipyexperiments", "version",
    ])
    found = {}
    exec("from ipyexperiments.ipyexperiments import *", found)
    equal(sorted(name for name in found if name != "__builtins__"), ["IPyExperimentsCPU", "IPyExperimentsPytorch"])
    found = {}
    exec("from ipyexperiments.utils.ipython import *", found)
    assert {"is_in_ipython", "IS_IN_IPYTHON", "ipython_tb_clear_frames", "ipython_tb_clear_frames_ctx"} <= set(found)


def check_modules():
    import ipyexperiments
    import ipyexperiments.ipyexperiments as experiments
    import ipyexperiments.utils.pynvml_gate  # noqa: F401
    import ipyexperiments.version
    from ipyexperiments.cell_logger import CellLogger

    equal((ipyexperiments.__version__, ipyexperiments.version.__version__), ("0.1.29", "0.1.29"))
    assert ipyexperiments.IPyExperimentsCPU is experiments.IPyExperimentsCPU
    assert (ipyexperiments.CellLogger, experiments.CellLogger) == (CellLogger, CellLogger)
    assert issubclass(experiments.IPyExperimentsPytorch, experiments.IPyExperimentsGPU)
    assert issubclass(experiments.IPyExperimentsGPU, experiments.IPyExperimentsCPU)
    assert issubclass(experiments.IPyExperimentsCPU, experiments.IPyExperiments)
    equal(experiments.IPyExperimentData._fields, ("cpu", "gpu"))
    equal(experiments.IPyExperimentMemory._fields, ("consumed", "reclaimed", "available"))


def check_pynvml_gate():
    from ipyexperiments.utils.pynvml_gate import load_pynvml_env

    sys.modules["pynvml"] = None
    try:
        load_pynvml_env()
    except ImportError as error:
        assert "pynvml" in str(error)
    else:
        raise AssertionError("there is no pynvml")
    started = []
    stand_in = sys.modules["pynvml"] = types.ModuleType("pynvml")
    stand_in.nvmlInit = lambda: started.append(True)
    try:
        assert load_pynvml_env() is stand_in
        ipyexp_shell.run("experiment = IPyExperimentsPytorch(cl_enable=False)")
        assert shell.user_ns["experiment"].pynvml is stand_in
        equal(started, [True, True])
    finally:
        del sys.modules["pynvml"]
        ipyexp_shell.run("del experiment")


def check_reports_numbers():
    from ipyexperiments.cell_logger import b2mb, cpu_ram_used, get_nvml_gpu_id, int2width, secs2time

    equal([secs2time(seconds) for seconds in (0, 0.0049, 59.9999, 3661.5, 90061.25)],
          ["0:00:00.000", "0:00:00.004", "0:00:59.999", "1:01:01.500", "1 day, 1:01:01.250"])
    equal([int2width(*numbers) for numbers in ((0,), (999,), (1000,), (5, 123456), (-256,), (1234567,))],
          [1, 3, 5, 7, 5, 9])
    equal([b2mb(2**20 - 1), b2mb(-(2**20) - 1), b2mb(5 * 2**20)], [0, -1, 5])
    device = torch.cuda.current_device()
    equal(get_nvml_gpu_id(device), device)
    assert cpu_ram_used() > 2**20


def check_memory_functions():
    equal((mem.use_gpu, mem.GPUMemory._fields), (True, ("total", "free", "used")))
    equal(type(mem.gpu_mem_get_mbs()), mem.GPUMemory)
    for id in (-1, 99):
        equal(mem.gpu_mem_get_mbs(id), mem.GPUMemory(0, 0, 0))
    equal((mem.preload_pytorch(), mem.preload_pytorch(0)), (None, None))


def check_memory_is_left_free():
    mem.preload_pytorch()
    torch.cuda.empty_cache()
    before = mem.gpu_mem_get_free_mbs()
    held = mem.gpu_mem_leave_free_mbs(before - 10)
    assert held is not None and abs(mem.gpu_mem_get_free_mbs() - (before - 10)) <= 1
    del held
    equal(mem.gpu_mem_get_free_no_cache_mbs(), before)
