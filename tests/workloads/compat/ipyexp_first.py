"""The first experiment in a process, before anything has started CUDA."""

import os

import torch
from checking import equal
from IPython.core.interactiveshell import InteractiveShell

import gpumem.compat

InteractiveShell.instance(colors="nocolor")
gpumem.compat.install()
from ipyexperiments import IPyExperimentsPytorch  # noqa: E402

LOADING = os.environ.get("CUDA_MODULE_LOADING")


def check_kernels_are_loaded_at_once():
    """Unless the user has chosen otherwise: a kernel that is loaded later would count as a cell's."""
    equal(torch.cuda.is_initialized(), False)
    IPyExperimentsPytorch(cl_enable=False).finish()
    equal(os.environ.get("CUDA_MODULE_LOADING"), LOADING or "EAGER")
