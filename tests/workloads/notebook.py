"""notebook.py KERNEL FILE…: runs each file as a cell of a notebook, in a real Jupyter kernel of that name. Prints as
JSON for each cell the text that it printed and how many errors it showed, and the error that ended the notebook."""

import json
import sys

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

kernel, *names = sys.argv[1:]
notebook = nbformat.v4.new_notebook(
    cells=[nbformat.v4.new_code_cell(open(name).read()) for name in names]
)
error = None
try:
    NotebookClient(notebook, kernel_name=kernel, timeout=100).execute()
except CellExecutionError as failed:
    error = [failed.ename, failed.evalue]
texts = ["".join(part.get("text", "") for part in cell.outputs) for cell in notebook.cells]
errors = [sum(part.output_type == "error" for part in cell.outputs) for cell in notebook.cells]
print(json.dumps({"texts": texts, "errors": errors, "error": error}))
