"""A real IPython shell in which the checks of ipyexperiments run cells, with PyTorch on the simulator."""

import gc
import re

import torch
from checking import MB, said
from IPython.core.interactiveshell import InteractiveShell

import gpumem.compat

shell = InteractiveShell.instance(colors="nocolor")
gpumem.compat.install()
torch.cuda.set_device(torch.cuda.device_count() - 1)

CELL = ["･ RAM:  △Consumed    △Peaked    Used Total | Exec time #", "･ CPU: # # # MB |", "･ GPU: # # # MB |"]


def held(megabytes):
    """Memory of the current device."""
    return torch.empty(megabytes * MB, dtype=torch.uint8, device="cuda")


def run(*lines):
    """What a cell prints. Its error, if there is one, is raised."""
    results = []
    out = said(lambda: results.append(shell.run_cell("\n".join(lines), store_history=True)))
    result = results[0]
    if result.error_before_exec or result.error_in_exec:
        raise AssertionError(out) from (result.error_before_exec or result.error_in_exec)
    return out


def shape(out):
    """Lines with `#` for each figure and the spaces before it."""
    figure = r"\( *-?[\d.]+(?=%)| +-?[\d.,]*\d(?=%? |\n)| \d+:\d\d:\d\d(?:\.\d{3})?"

    def stand_in(found):
        return "(#" if found[0].startswith("(") else " #"

    lines = out.split("\n")[:-1]
    return [line if line.startswith("Device: ") else re.sub(figure, stand_in, line + "\n")[:-1] for line in lines]


def gpu(out):
    """Consumed, peaked and total MB of the GPU's rows of cells."""
    rows = re.findall(r"^･ GPU: +([-\d,]+) +([-\d,]+) +([\d,]+) MB \|$", out, re.MULTILINE)
    return [tuple(int(figure.replace(",", "")) for figure in row) for row in rows]


shell.push({"held": held, "torch": torch})
run("from ipyexperiments import *", "from ipyexperiments.cell_logger import CellLogger")
# PyTorch's own objects are never garbage: without them each of the many collections is quick.
gc.freeze()
