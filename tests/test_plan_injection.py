"""How a plan's code is loaded into a program (python/gpumem/_plan/inside/first): on every CPython, beside other
sitecustomizes, without a trace. The PyTorch here is a folder of that name: the injected code reports that it has no
dispatch modes."""

import subprocess
import sys

import harness
import pytest

sys.path.insert(0, str(harness.ROOT / "python"))

from gpumem._plan import inside  # noqa: E402
from gpumem._plan.inside import world  # noqa: E402

INSTALLED = "gpumem: PyTorch 0.0 has no dispatch modes that last: values are not computed (2.1 has)\n"
LOOK = """
import sys
print([name for name in sys.modules if "sitecustomize" in name], [e for e in sys.path if "_plan" in e], len(sys.meta_path))
{}
print(getattr(sys.modules.get("sitecustomize"), "OTHER", None), [n for n in sys.modules if "gpumem" in n][:1])
import torch
print(torch.__spec__.loader.exec_module.__qualname__, len(sys.meta_path))
import torch
"""


@pytest.fixture
def start(tmp_path):
    """Runs code in a Python with a plan's parts; PyTorch is a file. Its output on stdout and stderr."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("__version__ = '0.0'\n")

    def begin(python, code, *options, others="", parts=("values",)):
        before = {"PATH": "/usr/bin:/bin", "PYTHONPATH": others} if others else {"PATH": "/usr/bin:/bin"}
        environment = inside.environment(parts, before)
        command = [str(python), *options, "-B", "-c", f"import sys; sys.path.append({str(tmp_path)!r})\n{code}"]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True, timeout=100)
        return done.stdout, done.stderr

    return begin


@pytest.mark.parametrize("version", ("py38", "py39", "py310", "py311", "py312", "py313"))
def test_the_parts_follow_the_import_of_torch_once(version, python_env, start):
    python = python_env(version)
    out, err = start(python, LOOK.format(""))
    plain = subprocess.run([str(python), "-c", "import sys; print(len(sys.meta_path))"], stdout=subprocess.PIPE, text=True).stdout.strip()
    first, second, third = out.splitlines()
    assert first == f"[] [] {int(plain) + 1}", "no sitecustomize, no folder, one finder that waits"
    assert second == "None []"
    assert third == f"SourceLoader.exec_module {plain}" or third == f"_LoaderBasics.exec_module {plain}", "all is as it was"
    assert err == INSTALLED


def test_nothing_happens_without_torch_or_without_parts(python_env, start):
    python = python_env("py312")
    assert start(python, "print('done')") == ("done\n", "")
    out, err = start(python, "import torch; print(len(sys.meta_path))", parts=())
    assert (err, int(out)) == ("", int(start(python, "print(len(sys.meta_path))", parts=())[0]))
    assert start(python, "import torch", parts=("nonsense",))[1] == "gpumem: GPUMEM_PLAN_PARTS names nonsense, which is no part of a plan\n"


@pytest.mark.parametrize("where", ("PYTHONPATH", "environment"))
def test_another_sitecustomize_runs_as_it_would_have(where, python_env, start, tmp_path):
    python = python_env("py312")
    other = "import sys\nOTHER = __file__\nsys.argv.append('seen')\n"
    if where == "PYTHONPATH":
        folder, environment = tmp_path / "other", {"others": str(tmp_path / "other")}
        folder.mkdir()
    else:
        subprocess.run([str(python), "-m", "venv", "--without-pip", str(tmp_path / "env")], check=True)
        python, environment = tmp_path / "env" / "bin" / "python", {}
        (folder,) = (tmp_path / "env" / "lib").glob("python3*/site-packages")
    (folder / "sitecustomize.py").write_text(other)
    out, err = start(python, LOOK.format("assert sys.argv[-1] == 'seen'"), **environment)
    assert out.splitlines()[0].startswith("['sitecustomize'] []")
    assert out.splitlines()[1] == f"{folder / 'sitecustomize.py'} []"
    assert err == INSTALLED
    (folder / "sitecustomize.py").write_text("1 / 0\n")
    out, err = start(python, "import torch", **environment)
    assert "Error in sitecustomize" in err and "ZeroDivisionError" in err and err.endswith(INSTALLED)


def test_a_torch_that_cannot_be_imported_is_tried_again(python_env, start):
    code = ("import pathlib; file = pathlib.Path(sys.path[-1], 'torch', '__init__.py'); text = file.read_text(); file.write_text('1 / 0')\n"
            "try:\n    import torch\nexcept ZeroDivisionError:\n    file.write_text(text + '# whole')\nimport importlib; importlib.invalidate_caches()\n"
            "import torch")  # fmt: skip
    assert start(python_env("py312"), code) == ("", INSTALLED)


def test_what_cannot_be_covered_is_said(python_env, start):
    python = str(python_env("py312"))
    for option, why in (("-I", "ignores PYTHONPATH"), ("-E", "ignores PYTHONPATH"), ("-S", "does not import sitecustomize")):
        assert start(python, "import torch", option)[1] == ""
        said = inside.cannot([python, option, "train.py"])
        assert said is not None and f"python {option} {why}" in said
    for command in (["python", "train.py", "-S"], ["python", "-m", "I"], ["python3", "-X", "S", "a.py"], ["torchrun", "-S"], ["python", "-c", "-I"]):
        assert inside.cannot(command) is None, command
    assert inside.cannot(["python", "-W", "error", "-uS", "a.py"]) is not None


def test_the_fake_group_gets_options_of_its_own_only():
    """PyTorch 2.6 has those of all backends under the same name, and they need words."""

    class Backend:
        class Options:
            def __init__(self, backend):
                raise AssertionError(backend)

    class Older(Backend):
        pass

    class Newer(Backend):
        class Options:
            simulate_uniform_ranks = False

    assert world._options(Older) is None
    assert world._options(Newer).simulate_uniform_ranks is True
