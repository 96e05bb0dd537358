"""A module for the beginning of the list, which makes the checks after it run with PyTorch in use."""

import torch  # noqa: F401
