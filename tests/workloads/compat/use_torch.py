"""Named before others, these are checked with PyTorch in use."""

import torch  # noqa: F401
