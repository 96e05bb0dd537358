"""A workspace of cuBLAS that is configured too large."""

import os

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":131072:4"

import torch  # noqa: E402

x = torch.randn(1024, 1024, device="cuda")
y = x @ x
