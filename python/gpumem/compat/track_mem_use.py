"""`track_mem_use` of Pytorch-Memory-Utils: the later name of `gpu_profile`, and the same module."""

import sys

from . import gpu_profile

sys.modules[__name__] = gpu_profile
