"""Without a GPU, a driver or IPython: experiments look at RAM alone, and `__main__` stands for the notebook."""

import os
import re
import weakref

import __main__
from checking import equal, said

import gpumem.compat

gpumem.compat.install()

import ipyexperiments  # noqa: E402
from ipyexperiments.utils import ipython, mem  # noqa: E402

from gpumem._inside import sampler  # noqa: E402

SHAPE = r"""
\*\*\* Experiment started with the CPU-only backend


\*\*\* Current state:
RAM:( +)Used( +)Free( +)Total( +)Util
CPU: +[\d,]+ +[\d,]+ +[\d,]+ MB +\d+\.\d\d%%\x20


･ RAM:  △Consumed    △Peaked    Used Total \| Exec time \d:\d\d:\d\d\.\d{3}
･ CPU: +-?\d+ +\d+ +[\d,]+ MB \|

%s: Finishing

\*\*\* Experiment finished in \d\d:\d\d:\d\d \(elapsed wallclock time\)

\*\*\* Newly defined local variables:
Deleted: gone
Kept:    kept
(\n\*\*\* Circular ref objects gc collected during the experiment:
cleared \d+ objects \(only temporary leakage\)
)?
\*\*\* Experiment memory:
RAM: Consumed       Reclaimed
CPU: +-?\d+ +-?\d+ MB \( *-?\d+\.\d\d%%\)

\*\*\* Current state:
RAM:\1Used\2Free\3Total\4Util
CPU: +[\d,]+ +[\d,]+ +[\d,]+ MB +\d+\.\d\d%%\x20


"""


def check_an_experiment():
    for kind in (ipyexperiments.IPyExperimentsCPU, ipyexperiments.IPyExperimentsPytorch):

        def experiment():
            with kind() as running:
                __main__.kept, __main__.gone = 1, 2
                running.keep_var_names("kept")
                equal((running.backend, running.has_gpu, running.data.gpu), ("cpu", False, (0, 0, 0)))

        out = said(experiment)
        assert re.fullmatch(SHAPE % kind.__name__, out), out
        assert hasattr(__main__, "kept") and not hasattr(__main__, "gone")
        del __main__.kept


def check_the_bare_classes():
    experiment = ipyexperiments.IPyExperiments()
    equal((experiment.running, experiment.cl), (False, None))
    equal((experiment.cpu_ram(), experiment.gpu_ram()), ((0, 0, 0), (0, 0, 0)))
    equal(said(lambda: ipyexperiments.IPyExperimentsGPU(exp_enable=False).finish()), "")


def check_errors_keep_their_variables():
    class Held:
        pass

    references = []

    @ipython.ipython_tb_clear_frames
    def fails():
        local = Held()
        references.append(weakref.ref(local))
        raise KeyError("mine")

    def in_context():
        with ipython.ipython_tb_clear_frames_ctx():
            fails()

    for call, kept in ((fails, True), (in_context, False)):
        try:
            call()
        except KeyError:
            equal(references.pop()() is not None, kept)


def check_is_in_ipython():
    equal((ipython.is_in_ipython(), ipython.IS_IN_IPYTHON), (False, False))
    os.environ["JPY_PARENT_PID"] = "1"
    equal(ipython.is_in_ipython(), True)
    del os.environ["JPY_PARENT_PID"]


def check_memory_functions():
    equal((mem.use_gpu, mem.gpu_mem_get_mbs(), mem.preload_pytorch()), (False, mem.GPUMemory(0, 0, 0), None))
    equal((mem.gpu_mem_get_total_mbs(), mem.gpu_mem_get_free_no_cache_mbs(), mem.gpu_mem_allocate_mbs(1)), (0, 0, None))
    try:
        mem.get_nvml_gpu_id(0)
    except ValueError as error:
        equal(str(error), "no such device: 0")
    else:
        raise AssertionError("there is no device")


def check_rising_figures_are_sampled_without_a_pause():
    """The clock and the figure are ours: it rises for ten looks, and is then level."""
    pauses, now, value = [], [0.0], [0]

    class Clock:
        @staticmethod
        def monotonic():
            return now[0]

        @staticmethod
        def sleep(seconds):
            pauses.append(seconds)
            now[0] += max(seconds, 0.0005)
            value[0] = min(value[0] + 1, 10)
            if len(pauses) == 40:
                gauge.close()

    before, sampler.time = sampler.time, Clock
    try:
        gauge = sampler.Gauge(lambda: value[0])
        sampler._thread.join(60)
    finally:
        sampler.time = before
    equal(gauge.peak, 10)
    first = pauses.index(0)
    level = first + pauses[first:].index(0.001)
    assert level - first > 10 and set(pauses[first:level]) == {0}, pauses
    equal((first, set(pauses[level:])), (1, {0.001}))
