"""gpumem.compat.ipyexperiments behaves and prints as ipyexperiments 0.1.29 does, in a real IPython.

The checks are in tests/workloads/compat/ipyexp_*.py; docs/coming-from/coverage.md names one for each public name.
What breaks them: a variable that is deleted but should stay, a cell without its report, memory of a pool that
counts as consumed, a blank line more or less."""

import os
import re

import harness
import pytest

CHECKS = harness.WORKLOADS / "compat"
SLOW = {"GPUMEM_SIM_ALLOCATION_US": "3000"}
# PyTorch, the IPython for its Python.
SHELLS = {"torch215": "jupyter", "torch112": "ipython"}
MODULES = ("ipyexp_first", "ipyexp_cells", "ipyexp_experiments", "ipyexp_errors")


def passed(done):
    return [line.split()[1] for line in done.stdout.splitlines() if line.startswith("passed ")]


def checks_of(*modules):
    return [
        f"{module}.{line.split('(')[0][len('def '):]}"
        for module in modules
        for line in (CHECKS / f"{module}.py").read_text().splitlines()
        if line.startswith("def check_")
    ]


@pytest.fixture
def run_checks(python_env, simulate, tmp_path):
    """run_checks("torch112", *modules) runs the checks in IPython with that PyTorch."""

    def start(environment, *modules, env=None, **options):
        python, torch = python_env(SHELLS[environment]), python_env(environment)
        version = harness.run([python, "-c", "import sys; print('python%d.%d' % sys.version_info[:2])"]).stdout.strip()
        site = torch.parent.parent / "lib" / version / "site-packages"
        if not site.is_dir():
            pytest.skip(f"{environment} is of another Python than {SHELLS[environment]}: {site}")
        return simulate(
            [python, CHECKS / "run.py", *modules],
            env={
                "PYTHONPATH": f"{harness.ROOT / 'python'}{os.pathsep}{site}", "GPUMEM_QUIET": "1", "NO_COLOR": "1",
                "IPYTHONDIR": str(tmp_path / "ipython"), **harness.SIMULATED_CARD[environment], **(env or {}),
            },
            **options,
        )  # fmt: skip

    return start


@pytest.mark.parametrize(
    "environment, devices, preload, slow",
    [
        ("torch215", 1, True, False),
        # Short peaks are sampled in time.
        pytest.param("torch215", 2, False, True, marks=[pytest.mark.slow, pytest.mark.alone]),
        pytest.param("torch112", 2, True, True, marks=pytest.mark.slow),
        pytest.param("torch112", 1, False, False, marks=pytest.mark.slow),
    ],
)
def test_in_ipython(environment, devices, preload, slow, run_checks):
    done = run_checks(environment, *MODULES, devices=devices, preload=preload, env=SLOW if slow else {})
    assert passed(done) == checks_of(*MODULES)


@pytest.mark.slow
def test_module_loading_that_is_set_stays(run_checks):
    run_checks("torch215", "ipyexp_first", preload=True, env={"CUDA_MODULE_LOADING": "LAZY"})


def test_outside_ipython_and_without_a_gpu(python_env, tmp_path):
    done = harness.run(
        [python_env("py312"), CHECKS / "run.py", "ipyexp_outside"],
        env={"PYTHONPATH": str(harness.ROOT / "python")}, cwd=tmp_path,
    )  # fmt: skip
    assert passed(done) == checks_of("ipyexp_outside")


def rows_of_the_table():
    """Cells of the rows of docs/coming-from/coverage.md on ipyexperiments."""
    page = (harness.ROOT / "docs" / "coming-from" / "coverage.md").read_text()
    section = page.split("\n## ipyexperiments\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[1:]]


def test_each_row_of_the_table_has_its_reason_and_its_check():
    checks = {name for path in CHECKS.glob("ipyexp*.py") for name in checks_of(path.stem)}
    rows = rows_of_the_table()
    assert len(rows) > 50
    for row in rows:
        name, status, reason, check = row
        assert name and status in ("works", "differs", "not offered"), row
        assert status == "works" or reason, row
        assert check in checks, row


PUBLIC_NAMES = """
import importlib, pkgutil
import gpumem.compat.ipyexperiments as package
found = pkgutil.walk_packages(package.__path__, package.__name__ + ".")
for module in [package] + [importlib.import_module(one.name) for one in found]:
    if not any(part.startswith("_") for part in module.__name__.split(".")):
        print(*getattr(module, "__all__", ()), sep="\\n")
for base in (package.IPyExperimentsPytorch, package.CellLogger):
    for kind in base.__mro__[:-1]:
        print(*(name for name in vars(kind) if not name.startswith("_")), sep="\\n")
    instance = base(exp_enable=False) if base is package.IPyExperimentsPytorch else base()
    print(*(name for name in vars(instance) if not name.startswith("_")), sep="\\n")
"""


def test_each_public_name_is_in_the_table(python_env, tmp_path):
    done = harness.run(
        [python_env("py312"), "-c", PUBLIC_NAMES], env={"PYTHONPATH": str(harness.ROOT / "python")}, cwd=tmp_path
    )
    names = {line for line in done.stdout.splitlines() if line.isidentifier()}
    listed = set(re.findall(r"\w+", " ".join(row[0] for row in rows_of_the_table())))
    assert {"IPyExperimentsCPU", "keep_var_names", "secs2time", "gpu_ram", "cl_kwargs"} <= names
    assert names <= listed, names - listed
