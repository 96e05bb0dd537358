"""`%mlrun` in a notebook: its result, its options, and the names that a statement sees. Without a framework."""

import os
import tempfile

from checking import MB, PRELOADED, equal, said
from IPython.core.interactiveshell import InteractiveShell

import gpumem.compat

shell = InteractiveShell.instance()
gpumem.compat.install()

from ipyexperiments.utils.mem import gpu_mem_allocate_mbs, preload_pytorch  # noqa: E402
from pytorch_memlab.line_profiler import LineProfiler  # noqa: E402
from pytorch_memlab.line_profiler.extension import UsageError  # noqa: E402
from pytorch_memlab.line_profiler.line_records import RecordsDisplay  # noqa: E402

preload_pytorch()
shell.user_ns["allocate"] = gpu_mem_allocate_mbs
said(shell.run_cell, "%load_ext pytorch_memlab")
shell.run_cell("def work(n):\n    x = allocate(n)\n    return n\n")
TITLE = "## work\n\nactive_bytes reserved_bytes line  code\n"


def ran(cell):
    """What a cell prints, and its result."""
    results = []
    out = said(lambda: results.append(shell.run_cell(cell)))
    return out, results[0]


def check_the_result_shows_itself():
    out, cell = ran("%mlrun -f work kept = work(8)")
    assert isinstance(cell.result, RecordsDisplay) and TITLE in out, out
    equal(shell.user_ns["kept"], 8)
    out, cell = ran("shown = %mlrun -f work work(8)")
    equal((out, repr(shell.user_ns["shown"]).startswith(TITLE)), ("", True))
    if PRELOADED:
        before, during = (shell.user_ns["shown"].tables[0].figures[line]["active_bytes.all.peak"] for line in (1, 2))
        equal(during - before, 8 * MB)


def check_a_cell():
    out, cell = ran("%%mlrun -f work -f other\ndef other():\n    work(1)\nkept = 5\nwork(1)")
    assert isinstance(cell.error_in_exec, UsageError), cell.error_in_exec
    equal(str(cell.error_in_exec), "Could not find function 'other'.\nNameError: name 'other' is not defined")
    out, cell = ran("%%mlrun -f work\nkept = 5\nwork(1)")
    equal((shell.user_ns["kept"], repr(cell.result).startswith(TITLE)), (5, True))


def check_options():
    equal(type(ran("%mlrun -r -f work work(1)")[1].result), LineProfiler)
    out, cell = ran("%mlrun -q -f work kept = work(3)")
    equal((out, cell.result, shell.user_ns["kept"]), ("", None, 3))
    path = os.path.join(tempfile.mkdtemp(), "lines.txt")
    out, cell = ran(f"%mlrun -T {path} -D -c allocated_bytes.all.peak -f work work(1)")
    with open(path, encoding="utf-8") as file:
        dumped = file.read()
    equal(dumped, repr(cell.result))
    if PRELOADED:
        assert dumped.startswith("## work\n\nallocated_bytes line  code\n"), dumped
        error = ran("%mlrun -c a.b.c -f work work(1)")[1].error_in_exec
        assert str(error).startswith("The column names should be fields of torch.cuda.memory_stat()."), error
    error = ran("%mlrun --nonsense")[1].error_in_exec
    assert isinstance(error, UsageError) and str(error).startswith("%mlrun: "), error


def check_names_within_a_function():
    shell.run_cell(
        "def calls():\n    inside = 4\n    get_ipython().run_line_magic('mlrun', '-q -f work work(inside)')\n    return inside\n"
    )
    equal(ran("calls()")[1].result, 4)


def check_it_can_be_unloaded():
    said(shell.run_cell, "%unload_ext pytorch_memlab")
    assert "mlrun" not in shell.magics_manager.magics["line"]
