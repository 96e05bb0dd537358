"""`gpumem card measure`: measures each figure in a separate child process, so that it contains no memory of
another figure."""
