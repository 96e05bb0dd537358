"""`gpumem whatif`: the same run with other settings of PyTorch's allocator."""
