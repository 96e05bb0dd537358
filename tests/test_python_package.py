"""The gpumem package: the library's counters from inside the program, equal to PyTorch's at every step.

What breaks these tests: a counter that is updated late (by the drain), a field read in the wrong order,
or an import that needs the library."""

import re

import harness
import pytest

PACKAGE = {"PYTHONPATH": str(harness.ROOT / "python")}


@pytest.mark.parametrize("environment", ("torch215", "torch112"))
def test_counters_follow_pytorchs(environment, python_env, simulate):
    done = simulate(
        [python_env(environment), harness.WORKLOADS / "own_counters.py"], preload=True, env=PACKAGE
    )
    assert done.stdout.split() == ["same", "8"]


@pytest.mark.parametrize("version", ("py38", "py39", "py310", "py311", "py312", "py313", "py314"))
def test_it_imports_without_the_library(version, python_env, tmp_path):
    script = (
        "import gpumem\n"
        "print(gpumem.api_version(), gpumem.recording(), sum(map(sum, gpumem.counters(1))))\n"
        "try: gpumem.counters(-1)\n"
        "except ValueError as error: print(error)\n"
        "print(gpumem.__version__)\n"
    )
    python = python_env(version)
    ours = re.search(r'^version = "(.*)"$', (harness.ROOT / "Cargo.toml").read_text(), re.M)[1]
    done = harness.run([python, "-c", script], env=PACKAGE, cwd=tmp_path)
    assert done.stdout == f"None False 0\nno such device: -1\n{ours}\n"
    done = harness.run([python, "-c", script], env=harness.preloaded(PACKAGE), cwd=tmp_path)
    assert done.stdout == f"8 False 0\nno such device: -1\n{ours}\n"
    assert not list(tmp_path.iterdir()), "reading counters opens no capture"
