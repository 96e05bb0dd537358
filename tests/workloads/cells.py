"""cells.py FILE…: runs each file as a cell of a real IPython shell, with PyTorch."""

import sys

from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance(colors="nocolor")
for name in sys.argv[1:]:
    print(f"In {name}")
    with open(name) as file:
        shell.run_cell(file.read(), store_history=True)
