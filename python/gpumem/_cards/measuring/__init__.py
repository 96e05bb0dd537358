"""`gpumem card measure`: each figure by a child process of its own, so that none has another's memory in it."""
