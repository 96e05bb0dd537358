"""Experiments in IPython: what is deleted, kept, counted and printed."""

import torch
from checking import MB, equal, said
from ipyexp_shell import CELL, run, shape, shell

STATE = ["*** Current state:", "RAM:    Used    Free   Total       Util", "CPU: # # # MB #% ", "GPU: # # # MB #% "]


def banner():
    name = "gpumem simulated GPU (16384 RAM)"
    return ["", "*** Experiment started with the Pytorch backend", f"Device: ID {torch.cuda.current_device()}, {name}", ""]


def ended(*variables):
    return ["", "IPyExperimentsPytorch: Finishing", "", "*** Experiment finished in # (elapsed wallclock time)",
            *variables, "", "*** Experiment memory:", "RAM: Consumed       Reclaimed",
            "CPU: # # MB (#%)", "GPU: # # MB (#%)", "", *STATE, "", ""]


def garbage_aside(lines):
    """Lines without the note on garbage, which depends on what IPython leaves behind."""
    if "*** Circular ref objects gc collected during the experiment:" not in lines:
        return lines
    place = lines.index("*** Circular ref objects gc collected during the experiment:")
    assert lines[place + 1].startswith("cleared # objects (only temporary leakage)"), lines
    return lines[:place - 1] + lines[place + 2:]


def check_all_that_is_printed():
    out = run("experiment = IPyExperimentsPytorch()")
    equal(shape(out), [*banner(), "", *STATE, "", "", *CELL])
    run("kept, gone = 1, held(64)", "experiment.keep_var_names('kept')")
    out = run("del experiment")
    variables = ["", "*** Newly defined local variables:", "Deleted: gone", "Kept:    kept"]
    equal(garbage_aside(shape(out)), [*CELL, *ended(*variables)])
    assert f"\nGPU: {64:8} {64:8} MB (100.00%)\n" in out, out
    run("del kept")


def check_twice_in_a_cell():
    out = run("experiment = IPyExperimentsPytorch(cl_enable=False)", "experiment = IPyExperimentsPytorch(cl_enable=False)")
    equal(garbage_aside(shape(out)), [*banner(), "", *STATE, "", ""] * 2 + ended())
    equal((out.count("started"), out.count("Finishing"), out.count("Deleted")), (2, 1, 0))
    equal(shell.user_ns["experiment"].running, True)
    run("del experiment")
    assert "experiment" not in shell.user_ns


def check_again_in_a_later_cell():
    """The same cell again: the first experiment ends, and its variables go."""
    run("experiment = IPyExperimentsPytorch()")
    run("x = held(64)")
    out = run("experiment = IPyExperimentsPytorch()")
    equal((out.count("started"), out.count("Finishing"), out.count("Deleted: x\n")), (1, 1, 1))
    run("del experiment")


def check_other_experiments_are_variables():
    """An experiment of the same type stays; one of another type is deleted."""
    run("first = IPyExperimentsPytorch(cl_enable=False)")
    out = run("second = IPyExperimentsPytorch(cl_enable=False)", "other = IPyExperimentsCPU(cl_enable=False)",
              "first.finish()")
    assert "IPyExperimentsCPU: Finishing" in out and "Deleted: other\n" in out, out
    assert "second" in shell.user_ns and "other" not in shell.user_ns
    run("second.finish()", "del first, second")


def check_kept_names():
    run("experiment = IPyExperimentsCPU(cl_enable=False)", "experiment.keep_var_names('later', 'never')")
    out = run("later, gone = 1, 2", "experiment.finish()")
    assert "Deleted: gone\nKept:    later, never\n" in out, out
    equal(shell.user_ns["later"], 1)
    try:
        shell.user_ns["experiment"].keep_var_names("later", 5)
    except ValueError as error:
        equal(str(error), "expecting variable names as strings")
    else:
        raise AssertionError("5 is no name")
    equal(shell.user_ns["experiment"].var_names_keep, ["later", "never"])
    run("del later, experiment")


def check_what_ipython_holds_is_returned():
    """A value that was shown is in `Out` and `_` as well. Other variables with the same value stay."""
    run("before = 12345")
    run("experiment = IPyExperimentsPytorch(cl_enable=False)")
    run("x = held(64)", "x")
    run("same, again = before, before", "x.shape; x")
    out = run("data = experiment.finish()")
    assert "Deleted: again, same, x\n" in out, out
    # Showing a tensor loads kernels, which stay.
    assert shell.user_ns["data"].gpu.reclaimed >= 64 * MB, out
    equal(shell.user_ns["before"], 12345)
    run("del experiment, data, before")


def check_modules_and_functions_are_variables():
    run("experiment = IPyExperimentsCPU(cl_enable=False)")
    out = run("import string as gone", "def f(): pass", "_private = 1",
              "experiment.finish()")
    assert "Deleted: f, gone\n" in out and "_private" in shell.user_ns, out
    run("del experiment, _private")


def check_with():
    out = run("with IPyExperimentsPytorch() as experiment:", "    x, z = held(64), 'some data'",
              "    experiment.keep_var_names('z')", "print(z)")
    assert "Deleted: x\nKept:    z\n" in out and out.count("Finishing") == 1, out
    equal(out.splitlines()[-1], "some data")
    equal((shell.user_ns["experiment"].running, "x" in shell.user_ns), (False, False))
    out = said(shell.run_cell, "with IPyExperimentsPytorch():\n    x = held(64)\n    raise KeyError('mine')")
    assert "Deleted: x\n" in out and "KeyError: 'mine'" in out, out
    run("del experiment, z")


def check_data():
    out = run("experiment = IPyExperimentsPytorch(cl_enable=False)", "x = held(64)", "print(experiment.data.gpu)",
              "y = held(32)", "experiment.keep_var_names('y')", "end = experiment.finish()")
    free = shell.user_ns["end"].gpu.available
    assert f"IPyExperimentMemory(consumed={64 * MB}, reclaimed=0, available={free - 32 * MB})\n" in out, (out, free)
    equal(shell.user_ns["end"].gpu, (96 * MB, 64 * MB, free))
    equal(shell.user_ns["experiment"].data, shell.user_ns["end"])
    equal(run("experiment.finish(); None"), "")
    run("experiment = IPyExperimentsCPU(cl_enable=False)", "x = held(64)", "data = experiment.data", "del x")
    equal(shell.user_ns["data"].gpu, (0, 0, 0))
    assert shell.user_ns["data"].cpu.available > 0
    run("experiment.keep_var_names('y', 'end')", "del experiment, y, end")


def check_garbage_is_counted():
    import gc

    run("experiment = IPyExperimentsCPU(cl_enable=False)")
    gc.collect()
    out = run("cycle = []", "cycle.append(cycle)", "experiment.finish(); None")
    assert "\n*** Circular ref objects gc collected during the experiment:\ncleared " in out, out
    assert " objects (only temporary leakage)\n\n*** Experiment memory:\n" in out, out
    gc.garbage.append("uncollected")
    try:
        out = run("experiment = IPyExperimentsCPU(cl_enable=False)", "experiment.finish(); None")
    finally:
        gc.garbage.clear()
    assert "\n*** Potential memory leaks during the experiment:\nuncollected gc.garbage of 1 objects\n" in out, out
    run("del experiment")


BACKEND = """
class Own(IPyExperimentsGPU):
    cleared = 0
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.backend = "own"
        if self.__class__.__name__ == "Own":
            self.backend_init()
            self.start()
    def backend_init(self):
        super().backend_init()
        self.gpu_current_device_id = torch.cuda.current_device()
        print("own")
    def gpu_clear_cache(self):
        Own.cleared += 1
        torch.cuda.empty_cache()
"""


def check_a_backend_of_ones_own():
    run(BACKEND)
    out = run("experiment = Own(cl_compact=True)")
    equal(shape(out)[:6], ["own", "", *STATE])
    out = run("x = held(64)")
    assert " | GPU: 64/0/" in out, out
    out = run("del experiment")
    assert "\nOwn: Finishing\n" in out and f"\nGPU: {64:8} {64:8} MB (100.00%)\n" in out, out
    assert shell.user_ns["Own"].cleared > 3
    run("del Own")


def check_a_subclass_starts_when_it_is_told():
    run("class Mine(IPyExperimentsPytorch): pass")
    equal(run("experiment = Mine(cl_enable=False)"), "")
    out = run("experiment.backend_init(); experiment.start()", "experiment.finish(); None")
    assert out.startswith("\n*** Experiment started with the Pytorch backend\n") and "\nMine: Finishing\n" in out, out
    run("del experiment, Mine")


def check_methods():
    run("experiment = IPyExperimentsPytorch(cl_enable=False)", "cpu = IPyExperimentsCPU(cl_enable=False)")
    one, cpu = shell.user_ns["experiment"], shell.user_ns["cpu"]
    total, free, used = one.gpu_ram()
    equal((one.gpu_ram_avail(), one.gpu_ram_used(), total), (free, used, 16384 * MB))
    total, free, used = one.cpu_ram()
    equal(one.cpu_ram_total(), total)
    assert 0 < one.cpu_ram_used() < total and 0 < one.cpu_ram_avail() < total
    equal((cpu.gpu_ram(), cpu.gpu_ram_used(), cpu.gpu_ram_avail(), cpu.gpu_ram_used_fast(None)), ((0, 0, 0), 0, 0, 0))
    equal((one.backend, cpu.backend, one.has_gpu, cpu.has_gpu), ("pytorch", "cpu", True, False))
    equal((one.gpu_current_device_id, cpu.gpu_current_device_id), (torch.cuda.current_device(), -1))
    equal((one.torch is torch, one.enable, one.running, one.reclaimed), (True, True, True, False))
    assert "held" in one.get_var_names() and "In" not in one.get_var_names() and "_" not in one.get_var_names()
    del one, cpu
    run("experiment.keep_var_names('cpu')", "cpu.finish()", "experiment.finish()", "del experiment, cpu")
