"""The pytest plugin's budgets in gpumem.toml, the file that gpumem ci reads.

What breaks these tests: a budget that overrides a mark, one of a case that counts for all cases of its test, and an
error in the file that is more than a line."""

import re

import harness
import pytest
from test_pytest_plugin import run_tests  # noqa: F401  (fixtures are taken by name)

BUDGETS = """
[budget."test_it.py::test_too_much"]
peak = "2 MiB"
[budget."test_it.py::TestClass::test_fits"]
peak = 6291456
[budget."test_it.py::test_each"]
peak = "3 MiB"
[budget."test_it.py::test_each[4]"]
peak = "5 MiB"
[budget."test_it.py::test_marked"]
peak = "1 KiB"
[budget."test_it.py::test_of_another_level"]
peak = "1 KiB"
level = "host"
[budget."test_it.py::test_leaks"]
peak = "4 MiB"
[budget."train"]
peak = "1 KiB"
[[allow]]
workload = "train"
grow = "5%"
until = 2026-12-31
"""

BUDGETED = """
def test_too_much():
    Block(3 * MIB)

class TestClass:
    def test_fits(self):
        Block(6 * MIB)

@pytest.mark.parametrize("size", [2, 4])
def test_each(size):
    Block(size * MIB)

@pytest.mark.parametrize("size", [5])
def test_more_than_the_rest(size):
    Block(size * MIB)

@pytest.mark.limit_gpu_memory("4 MiB")
def test_marked():
    Block(4 * MIB)

def test_of_another_level():
    Block(4 * MIB)

@pytest.mark.limit_gpu_leaks("1 MiB")
def test_leaks():
    Block(5 * MIB)
"""


def test_budgets_of_gpumem_toml(run_tests, tmp_path):  # noqa: F811
    """The file that gpumem ci reads; a mark overrides it."""
    (tmp_path / "gpumem.toml").write_text(BUDGETS)
    done = run_tests(BUDGETED)
    said = re.findall(r"^(PASSED|FAILED) test_it\.py::(\S+)", done.stdout, re.M)
    found = {name: result for result, name in said}
    assert found == {
        "test_too_much": "FAILED", "TestClass::test_fits": "PASSED", "test_each[2]": "PASSED", "test_each[4]": "PASSED",
        "test_more_than_the_rest[5]": "PASSED", "test_marked": "PASSED", "test_of_another_level": "PASSED",
        "test_leaks": "FAILED",
    }, harness.described(done)  # fmt: skip
    assert (
        "budget in gpumem.toml: the test took 3.00 MiB (3,145,728 bytes) from CUDA on GPU 0; its limit is "
        "2.00 MiB (2,097,152 bytes)"
    ) in done.stdout
    done = run_tests(BUDGETED, recorded=False)
    assert "budget in gpumem.toml needs libgpumem.so in this process: start pytest as `gpumem run" in done.stdout


@pytest.mark.parametrize("text, said", [
    ('[budget."a.py::b"]\npeak = "2 G"', "budget 'a.py::b': '2 G' is not a size"),
    ('[budget."a.py::b"]\npeek = 2', "budget 'a.py::b': 'peek' is none of peak, level, grow"),
    ('[budget."a.py::b"]\npeak = 2\nlevel = "gpu"', "level 'gpu' is none of tensor, driver, physical, host"),
    ('[budgets."a.py::b"]\npeak = 2', "'budgets' is none of budget, allow"),
    ('[budget."a.py::b"', "gpumem.toml: "),
])
def test_budgets_that_are_wrong(run_tests, tmp_path, text, said):  # noqa: F811
    pytest.importorskip("tomllib")
    (tmp_path / "gpumem.toml").write_text(text)
    done = run_tests("def test_nothing(): pass", recorded=False)
    errors = [line for line in done.stderr.splitlines() if line.strip()]
    assert done.returncode == 4 and len(errors) == 1 and said in errors[0], harness.described(done)


def test_budgets_without_a_reader_of_toml(run_tests, tmp_path):  # noqa: F811
    """As on Python 3.10 without tomli: one line reports it if a test has a budget; otherwise nothing is missing."""
    budgets = tmp_path / "gpumem.toml"
    hidden = "import sys\nsys.modules['tomllib'] = sys.modules['tomli'] = None\n"
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "hidden.py").write_text(hidden)
    budgets.write_text('[budget."test_it.py::test_nothing"]\npeak = 1\n')
    options = ("-p", "hidden")
    done = run_tests("def test_nothing(): pass", *options, recorded=False, path=[tmp_path / "site"])
    assert done.returncode == 4 and "read with Python 3.11, or with tomli (pip install tomli)" in done.stderr
    budgets.write_text('[budget."train"]\npeak = 1\n')
    done = run_tests("def test_nothing(): pass", *options, recorded=False, path=[tmp_path / "site"])
    assert done.returncode == 0, harness.described(done)
