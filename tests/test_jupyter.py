"""%gpumem and %%gpumem in a real IPython and a real Jupyter kernel, on the simulator with PyTorch.

What breaks these tests: a cell that behaves differently when it is measured, a line that is charged with the memory
of another, an exception that leaves a line open, a kernel that is started without the library."""

import json
import os

import harness
import pytest

LOAD = "%load_ext gpumem\n"
WITH_TENSORS = LOAD + """\
import torch
def make(mib): return torch.empty(mib << 20, dtype=torch.uint8, device="cuda")
"""


@pytest.fixture
def run_cells(python_env, tmp_path):
    """run_cells(cell, …) runs the cells in one IPython shell and gives what it printed, by cell."""
    python = python_env("jupyter")
    site = python_env("torch215").parent.parent / "lib" / "python3.12" / "site-packages"

    def start(*cells, recorded=True, program="cells.py", words=(), header=WITH_TENSORS):
        names = []
        for number, cell in enumerate((header, *cells)):
            names.append(f"cell{number}")
            (tmp_path / names[-1]).write_text(cell)
        launcher = ["-m", "gpumem", "run", "-q"] if recorded else []
        return harness.simulate(
            [python, *launcher, harness.WORKLOADS / program, *words, *names], cwd=tmp_path,
            env={
                "PYTHONPATH": f"{harness.ROOT / 'python'}{os.pathsep}{site}", "NO_COLOR": "1", "HOME": str(tmp_path),
                "JUPYTER_PATH": str(tmp_path / "share" / "jupyter"), "IPYTHONDIR": str(tmp_path / "ipython"),
            },
        )  # fmt: skip

    start.python = python
    return start


def texts(done):
    """What each cell printed."""
    return [part.partition("\n")[2] for part in done.stdout.split("In cell")[1:]]


LINES = """\
%%gpumem
def both(a, b):
    x = make(a)
    y = make(b)
    return y
a = make(3)
z = both(10, 5)
for i in range(3):
    t = make(2)
if make(7) is not None:
    pass
try:
    if make(4) is None or 1 / 0:
        pass
except ZeroDivisionError:
    w = make(1)
del a
z.shape
"""

# used, peak and runs of each line, in MiB: a model of the cell by hand.
EXPECTED = [
    None, (10, 10, 1), (5, 5, 1), (0, 0, 1), (3, 3, 1),
    (5, 15, 1),  # x and y together; then x goes
    (0, 0, 4), (2, 2, 3),  # the second and third t each replace the one before
    (0, 7, 1), None, None, (0, 4, 1), None, None, (1, 1, 1), (-3, 0, 1), (0, 0, 1),
]  # fmt: skip


def test_a_cell_line_by_line(run_cells):
    done = run_cells(LINES, "print(both)\nkept = both(1, 1)\n%gpumem\n")
    _, told, after = texts(done)
    lines = told.splitlines()
    assert lines[0] == "Out[2]: torch.Size([5242880])", "the value of the last expression is shown"
    assert lines[1].split() == ["used", "peak", "runs", "line", "tensors"], told
    source = LINES.splitlines()[1:]
    for number, (line, text, expected) in enumerate(zip(lines[2:], source, EXPECTED), 1):
        head, shown = line[:36], line[38:]
        assert (head.split()[-1], shown) == (str(number), text), told
        found = [word.replace("MiB", "").strip() for word in (head[:11], head[12:23], head[24:30])]
        assert (tuple(map(float, found)) if any(found) else None) == expected, (number, line)
    assert len(lines) == 2 + len(source) + 1
    assert lines[-1].startswith("the cell: GPU 0: tensors +8.00 MiB (peak +18.0 MiB), from CUDA +22.0 MiB"), told
    # What a cell has defined stays usable, and is measured no more.
    assert after.startswith("<function both at "), done.stdout
    assert "GPU 0: tensors 9.00 MiB (peak 18.0 MiB), from CUDA" in after


def test_a_cell_is_run_as_ever(run_cells):
    """A cell that raises stops the notebook; its memory until then is shown. Generators, coroutines, magics and
    shell commands are unchanged."""
    done = run_cells(
        "%%gpumem\nkept = make(1)\nraise ValueError('mine')\n",
        "%%gpumem\nx = (\n",
        "%%gpumem\nimport asyncio\n"
        "def parts():\n    for i in range(2):\n        part = make(3)\n        yield part\n"
        "print(sum(part.numel() for part in parts()))\n"
        "async def later():\n    return make(2)\n"
        "print((await later()).shape)\n"
        "words = !echo hello\n"
        "print(words, [n for n in (1, 2) if n > 1], (lambda: make(1))().numel())\n"
        "if (walrus := make(1)) is not None: print(walrus.numel())\n",
        "%gpumem kept = make(6)\n",
        "%%gpumem\nprint('no memory')\n",
    )  # fmt: skip
    _, failed, syntax, mixed, line, nothing = texts(done)
    assert failed.count("ValueError: mine") == 1 and "+1.00 MiB   +1.00 MiB      1     1  kept = make(1)" in failed
    assert failed.rstrip().endswith("the cell: GPU 0: tensors +1.00 MiB (peak +1.00 MiB), from CUDA +2.00 MiB (peak +2.00 MiB)")
    assert syntax.count("SyntaxError") == 1
    assert mixed.startswith(f"{6 << 20}\ntorch.Size([{2 << 20}])\n['hello'] [2] {1 << 20}\n{1 << 20}\n"), done.stdout
    assert line == "gpumem: GPU 0: tensors +5.00 MiB (peak +6.00 MiB)\n", line
    assert nothing == "no memory\ngpumem: the cell used no GPU memory\n"


def test_who_keeps_the_memory(run_cells):
    """`gpumem.holders()` as a cell's value is a table: of the notebook's names, of cells' values, and of the error that was
    shown last, but not of the call's own frames."""
    done = run_cells(
        "import gpumem\nkept = [make(3), make(5)]\nmake(2)\n",
        "def fails(): local = make(4); raise ValueError\nfails()\n",
        "gpumem.holders()\n",
    )
    *_, table = texts(done)
    out, head, _, kept, *others = table.strip().splitlines()
    assert (out, head) == ("Out[4]: ", "tensors on GPU 0: 14.0 MiB"), table
    assert kept.split() == "8.00 MiB 57 % 2 8.00 MiB kept[0…1], global of __main__".split(), table
    named = " ".join(" ".join(others).split())
    # `_` and `_oh`, which is `Out`, both keep the value of a cell.
    assert "4.00 MiB 29 % 1 0 B " in named and " fails (" in named and "2.00 MiB 14 % 1 0 B _oh[2], global of __main__" in named, table
    assert "gpumem" not in table and "native" not in table, table


@pytest.mark.parametrize("recorded", (True, False))
def test_an_error_is_shown_once(recorded, run_cells):
    """Whatever its kind; and an error that the program has caught hides no later one."""
    done = run_cells(
        "%%gpumem\nraise ValueError('mine')\n",
        "%gpumem int('mine')\n",
        "%%gpumem\nx = (\n",
        "%%gpumem\nraise ExceptionGroup('mine', [KeyError('part')])\n",
        "try:\n    get_ipython().run_cell_magic('gpumem', '', 'raise KeyError(1)')\nexcept KeyError:\n    print('caught')\n",
        "raise KeyError('later')\n",
        "raise KeyError('last')\n",
        recorded=recorded, header=LOAD,
    )  # fmt: skip
    _, error, line, syntax, group, caught, later, last = texts(done)
    assert error.count("Traceback") == error.count("ValueError: mine") == 1, error
    assert line.count("Traceback") == 1 and "ipython.py" not in line, line
    assert syntax.count("SyntaxError") == 1 and "ipython.py" not in syntax and "the cell" not in syntax, syntax
    # Groups are printed by the traceback module, to standard error.
    assert done.stderr.count("Exception Group Traceback") == 1 and "Traceback" not in group, done.stderr
    assert caught.count("Traceback") == 1 and caught.rstrip().endswith("caught"), caught
    assert later.count("KeyError: 'later'") == last.count("KeyError: 'last'") == 1, done.stdout


def test_without_the_library_it_says_so_once(run_cells):
    done = run_cells("%%gpumem\nprint(1)\n", "%gpumem print(2)\n", "%gpumem\n", recorded=False, header=LOAD)
    _, first, second, third = texts(done)
    assert first.endswith("\n1\n") and first.startswith("gpumem: this kernel runs without libgpumem.so"), first
    assert "gpumem kernel" in first and "gpumem run jupyter lab" in first
    assert (second, third) == ("2\n", "")


@pytest.fixture
def kernel(run_cells, tmp_path):
    """The folder of the kernel that `gpumem kernel` adds."""
    done = harness.run(
        [run_cells.python, "-m", "gpumem", "kernel", "--prefix", tmp_path, "--name", "recorded"],
        env={"PYTHONPATH": str(harness.ROOT / "python")},
    )
    folder = tmp_path / "share" / "jupyter" / "kernels" / "recorded"
    assert f"is in {folder}." in done.stdout
    return folder


def test_a_kernel_is_started_with_the_recorder(kernel, run_cells):
    said = json.loads((kernel / "kernel.json").read_text())
    assert said["argv"][:6] == [str(run_cells.python), "-m", "gpumem", "run", "--no-report", "-m"]


@pytest.mark.slow
@pytest.mark.usefixtures("kernel")
def test_a_kernel(run_cells, tmp_path):
    """A notebook in it is measured, and stops where a cell raises."""
    done = run_cells(
        "%%gpumem\nkept = make(3)\n", "%%gpumem\nkept = make(2)\nraise KeyError('stop')\n", "print('not reached')\n",
        recorded=False, program="notebook.py", words=["recorded"],
    )  # fmt: skip
    told = json.loads(done.stdout)
    assert "+3.00 MiB   +3.00 MiB      1     1  kept = make(3)" in told["texts"][1], harness.described(done)
    assert "-1.00 MiB   +2.00 MiB      1     1  kept = make(2)" in told["texts"][2]
    assert told["error"] == ["KeyError", "'stop'"] and told["texts"][3] == ""
    assert told["errors"] == [0, 0, 1, 0], "an error is shown once"
    # The kernel's own capture can be read.
    summary = harness.analyze_json("report", "--all", tmp_path / "report.bin")
    assert harness.device_of(summary)["tensor"]["peak_bytes"] == 5 << 20


def test_a_kernels_name(run_cells):
    done = harness.run(
        [run_cells.python, "-m", "gpumem", "kernel", "--name", "a/b"],
        env={"PYTHONPATH": str(harness.ROOT / "python")}, check=False,
    )  # fmt: skip
    assert done.returncode == 2 and "a kernel's name has only letters" in done.stderr
