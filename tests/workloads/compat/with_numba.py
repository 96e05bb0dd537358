"""Without PyTorch: fastai's and ipyexperiments' functions on what numba allocates, by the driver alone."""

import sys

import numpy
from checking import MB, PRELOADED, equal, said
from numba import cuda

import gpumem.compat

gpumem.compat.install()

import ipyexperiments.utils.mem as experiments  # noqa: E402
import simulator  # noqa: E402
from fastai.utils import mem  # noqa: E402

from gpumem._machine import devices  # noqa: E402


def held(megabytes):
    return cuda.device_array(megabytes * MB, dtype=numpy.uint8)


def check_figures():
    mem.preload_pytorch()
    trace = mem.GPUMemTrace()
    x = held(32)
    y = held(64)
    del y
    mem.gpu_mem_get_used_no_cache()  # numba frees by and by: this makes it
    if PRELOADED:
        equal(said(trace.report), "△Used Peaked MB:     32     64\n")
    del x
    equal(trace.data()[0], 0)
    assert "torch" not in sys.modules and "cupy" not in sys.modules


def check_memory_taken_up():
    used = simulator.books()["devices"][0]["physical"]["current"]
    x = experiments.gpu_mem_allocate_mbs(64)
    equal(cuda.as_cuda_array(x).shape, (64 * MB,))
    equal(experiments.gpu_mem_get_used_mbs(), used // MB + 64)
    del x
    equal(experiments.gpu_mem_get_used_mbs(), used // MB)
    hold = experiments.gpu_mem_leave_free_mbs(100)
    equal(experiments.gpu_mem_get_free_mbs(), 100)
    equal(experiments.gpu_mem_allocate_mbs(200), None)
    try:
        experiments.gpu_mem_leave_free_mbs(200)
    except AssertionError as error:
        equal(str(error), "already have less available mem than desired 200MBs")
    else:
        raise AssertionError("there is less")
    del hold


def check_the_current_device():
    equal(devices.current(), 0)
    first = held(16)
    cuda.select_device(1)
    equal((devices.current(), mem.gpu_mem_get()), (1, mem.gpu_mem_get(1)))
    assert mem.gpu_mem_get(0) != mem.gpu_mem_get(1)
    trace = mem.GPUMemTrace()
    x = held(48)
    equal(trace.data()[0], 48)
    del x, first
