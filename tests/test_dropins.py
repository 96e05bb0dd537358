"""The drop-ins in detail: each row of docs/coming-from/coverage.md that is not in tests/test_compat.py.

The checks are in tests/workloads/compat; a process runs several modules of them. What breaks them: a name, a column
or a line of the original tool that the drop-in lacks, or has in another form without a reason."""

import re

import harness
import pytest
from test_compat import CHECKS, PACKAGE, SLOW, checked, checks_of

PYTORCH = ("fastai_epochs", "gputil_tables", "memlab_lines", "memlab_reporter", "track_lines", "track_models")


@pytest.mark.parametrize(
    "environment, devices, preload, slow",
    [
        ("torch215", 2, True, False),
        pytest.param("torch215", 1, False, False, marks=pytest.mark.slow),
        pytest.param("torch215", 1, True, True, marks=pytest.mark.slow),
        pytest.param("torch112", 2, True, True, marks=pytest.mark.slow),
        pytest.param("torch112", 1, True, False, marks=pytest.mark.slow),
        pytest.param("torch112", 2, False, True, marks=[pytest.mark.slow, pytest.mark.alone]),
    ],
)
def test_pytorch(environment, devices, preload, slow, python_env, simulate):
    env = {**PACKAGE, **harness.SIMULATED_CARD[environment], **(SLOW if slow else {})}
    command = [python_env(environment), "-W", "ignore::RuntimeWarning", CHECKS / "run.py", *PYTORCH]
    done = simulate(command, devices=devices, preload=preload, env=env)
    assert checked(done) == checks_of(*PYTORCH)


@pytest.mark.parametrize("preload", (True, False))
def test_the_magic(preload, python_env, simulate):
    done = simulate([python_env("jupyter"), CHECKS / "run.py", "memlab_magic"], preload=preload, env=PACKAGE)
    assert checked(done) == checks_of("memlab_magic")


WITHOUT_A_GPU = """
import gpumem.compat
gpumem.compat.install()
from pytorch_memlab import LineProfiler, profile, profile_every
@profile_every(1)
def work(): return 1
@profile
def other(): pass
with LineProfiler(work) as profiler: print(work(), profiler.enabled)
profiler.print_stats()
import GPUtil
GPUtil.showUtilization(); GPUtil.showUtilization(useOldCode=True)
from fastai.callbacks.mem import *
metric = PeakMemMetric()
metric.on_epoch_begin()
print(metric.on_epoch_end([])["last_metrics"][2:], GPUMemTrace is not None, sorted({"np", "torch", "gc", "re"} & set(globals())))
"""


@pytest.mark.parametrize("version", ("py38", "py312"))
def test_without_a_gpu_or_a_driver(version, python_env, tmp_path):
    done = harness.run([python_env(version), "-c", WITHOUT_A_GPU], env=PACKAGE, cwd=tmp_path)
    none = "Could not find CUDA deivces and reset CUDA stats and cache"
    assert done.stdout.splitlines() == [
        none, none, "No data collected", "1 False", "No data collected",
        "| ID | GPU | MEM |", "-" * 18, " ID  GPU  MEM", "-" * 14,
        "[0, 0] True ['gc', 're']",
        "No data collected",
    ]


def test_a_tool_that_is_taken_over_whole(python_env, tmp_path):
    """With force a package that is itself the tool is replaced, and its modules with it."""
    for name in ("GPUtil", "pytorch_memlab"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("whose = 'theirs'\n")
        (tmp_path / name / "GPUtil.py").write_text("whose = 'theirs'\n")
    script = """
import gpumem.compat
print(gpumem.compat.install(["GPUtil", "pytorch_memlab.line_profiler.profile"]))
print(gpumem.compat.install(["GPUtil.GPUtil", "pytorch_memlab.line_profiler.profile"], force=True))
import GPUtil.GPUtil, pytorch_memlab.line_profiler
from pytorch_memlab.line_profiler.profile import profile
print(GPUtil.__name__, GPUtil.GPUtil.__name__, pytorch_memlab.line_profiler.profile is profile is pytorch_memlab.profile)
"""
    env = {"PYTHONPATH": f"{tmp_path}:{PACKAGE['PYTHONPATH']}"}
    done = harness.run([python_env("py312"), "-c", script], env=env, cwd=tmp_path)
    assert done.stdout.splitlines() == [
        "[]",
        "['pytorch_memlab', 'pytorch_memlab.line_profiler', 'pytorch_memlab.line_profiler.profile', 'GPUtil', "
        "'GPUtil.GPUtil']",
        "gpumem.compat.GPUtil gpumem.compat.GPUtil.GPUtil True",
    ]


GAUGES = """
import gc, threading
from gpumem._inside import sampler
class Holder:
    def __init__(self): self.gauge, self.cycle = sampler.Gauge(lambda: 0), self
    def __del__(self): self.gauge.close()
class Thread(threading.Thread):
    def __init__(self, *args, **kwargs):
        gc.collect()
        super().__init__(*args, **kwargs)
gc.disable()
Holder()
sampler._thread, sampler.threading.Thread = None, Thread
gauge = sampler.Gauge(lambda: 5)
print(gauge.look(), sampler._open == [gauge])
"""


def test_a_gauge_is_closed_by_garbage_collection_while_another_opens(python_env):
    done = harness.run([python_env("py312"), "-c", GAUGES], env=PACKAGE)
    assert done.stdout == "5 True\n"


def rows_of_the_page():
    """The cells of each row of docs/coming-from/coverage.md."""
    lines = (harness.ROOT / "docs" / "coming-from" / "coverage.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return [row for row in rows if row[0] != "name" and set(row[0]) != {"-"}]


def test_each_row_of_the_page_has_its_test():
    rows = rows_of_the_page()
    assert len(rows) > 80
    for name, state, why, test in rows:
        assert state in ("works", "differs", "not offered") and name and (why or state == "works"), name
        module, _, check = test.partition(".")
        path = harness.ROOT / "tests" / f"{module}.py" if check.startswith("test_") else CHECKS / f"{module}.py"
        assert f"def {check}(" in path.read_text(), test


NOT_OFFERED = """
import importlib, sys
import gpumem.compat
gpumem.compat.install()
for name in sys.argv[1:]:
    found, parts = None, name.split(".")
    for place, part in enumerate(parts):
        try: found = importlib.import_module(".".join(parts[:place + 1]))
        except ImportError:
            # What a module has not, or a class that a module has.
            if not hasattr(found, part): break
            found = getattr(found, part)
    else: print("there is", name)
    assert place == len(parts) - 1, (name, "is not there for another reason")
"""


def test_names_that_are_not_offered(python_env, tmp_path):
    rows = [row for row in rows_of_the_page() if row[1] == "not offered" and row[3].endswith("not_offered")]
    names = [name for row in rows for name in re.findall(r"`([\w.]+)`", row[0])]
    assert len(names) >= 15
    done = harness.run([python_env("py312"), "-c", NOT_OFFERED, *names], env=PACKAGE, cwd=tmp_path)
    assert done.stdout == ""
