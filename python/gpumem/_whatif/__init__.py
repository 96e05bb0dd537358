"""The same run under other settings of PyTorch's allocator: `gpumem whatif`."""
