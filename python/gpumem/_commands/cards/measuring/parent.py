"""Runs the measuring processes one after the other, within a time limit. This process never has a context."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any, Callable, Dict, List, Optional

from ...._launch import launcher
from ...._machine import installed

# The most important first, in case time runs out. The first two are the same, to check that they agree.
STEPS = (
    "context", "context-again", "torch", "torch-tensor", "torch-matmul", "torch-linear", "cublas", "cublaslt", "cudnn",
    "torch-sdpa", "torch-conv", "torch-eager",
)  # fmt: skip
# Without this step there is no file.
_FIRST = "context"

_EACH = 60.0
# The package without the contents of its __init__: the child measures, and its events have no listener.
_CHILD = (
    # Not from the current folder.
    "import sys; sys.path[:] = [place for place in sys.path if place]; import types; "
    "package = types.ModuleType('gpumem'); package.__path__ = [sys.argv[1]]; "
    "sys.modules['gpumem'] = package; from gpumem._commands.cards.measuring import child; child.main(sys.argv[2])"
)
_UNSET = (
    "CUDA_DEVICE_ORDER", "CUDA_LAUNCH_BLOCKING", "CUBLAS_WORKSPACE_CONFIG", "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING", "TORCH_BLAS_PREFER_CUBLASLT",
)  # fmt: skip


class Run:
    """The measurement of one card."""

    def __init__(self, uuid: str, python: Optional[str], seconds: float, told: Callable[[str], None]) -> None:
        self._python = python or sys.executable or "python3"
        self._ends = time.monotonic() + seconds
        self._told = told
        self._environment = _environment(uuid)
        # The result of each step, and the reasons why others have none.
        self.answers: Dict[str, Dict[str, Any]] = {}
        self.without: Dict[str, str] = {}

    def all(self) -> None:
        """Runs all steps until time runs out."""
        for step in STEPS:
            if step != _FIRST and not self.has_context():
                return
            left = self._ends - time.monotonic()
            if left < 1:
                self.without[step] = "no time was left"
                continue
            self._told(step)
            self._take(step, self._one(step, min(left, _EACH)))

    def has_context(self) -> bool:
        """Whether the first step created a context."""
        readings = self.answers.get(_FIRST, {}).get("readings", ())
        return any(reading["at"] == "context" for reading in readings)

    def _take(self, step: str, answer: Dict[str, Any]) -> None:
        why = answer.get("not_here") or answer.get("failed")
        if why:
            self.without[step] = why
        # Readings before a failure count: if the driver rejects the kernel, the context has been measured.
        if answer.get("readings") and "not_here" not in answer:
            self.answers[step] = answer

    def _one(self, step: str, seconds: float) -> Dict[str, Any]:
        env = dict(self._environment)
        env["CUDA_MODULE_LOADING"] = "EAGER" if step == "torch-eager" else "LAZY"
        name = step[: -len("-again")] if step.endswith("-again") else step
        try:
            done = subprocess.run(
                [self._python, "-c", _CHILD, str(installed.PACKAGE), name], env=env, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", timeout=seconds, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {"failed": f"it took more than {seconds:.0f} s"}
        except OSError as error:
            return {"failed": f"{self._python}: {error.strerror}"}
        return _answer(done.stdout) or {"failed": _last_words(done)}


def _answer(output: str) -> Optional[Dict[str, Any]]:
    for line in reversed(output.splitlines()):
        if line.startswith("{"):
            try:
                return dict(json.loads(line))
            except ValueError:
                return None
    return None


def _last_words(done: "subprocess.CompletedProcess[str]") -> str:
    lines: List[str] = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    said = f": {lines[-1][:200]}" if lines else ""
    return f"its process ended with {done.returncode}{said}"


def _environment(uuid: str) -> Dict[str, str]:
    """This process's environment with only this card visible and without settings that change the costs: no recorder,
    no settings of PyTorch's allocator. No byte code or compiled kernels are written."""
    env = {name: value for name, value in os.environ.items() if name not in _UNSET and not _ours(name)}
    preloads = [name for name in env.pop("LD_PRELOAD", "").replace(":", " ").split() if not launcher.is_preloaded(name)]
    if preloads:
        env["LD_PRELOAD"] = ":".join(preloads)
    env.update(CUDA_VISIBLE_DEVICES=uuid, CUDA_CACHE_DISABLE="1", PYTHONDONTWRITEBYTECODE="1")
    return env


def _ours(name: str) -> bool:
    return name.startswith("GPUMEM_") and not name.startswith("GPUMEM_SIM_")
