"""Random PyTorch programs that run out of memory, each with what is true of it, and the judge's score on them.

`program.py` has the form and the parts that programs are made of, `graphs.py`, `tensors.py`, `sizes.py` and `correct.py` the
kinds, `score.py` runs them. A program is a function of its kind and its seed alone."""
