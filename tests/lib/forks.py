"""Runs programs in forks of one process that has imported PyTorch: what takes seconds happens once."""

from __future__ import annotations

import itertools
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Mapping, Optional, Sequence

import harness


class Forks:
    """A process with PyTorch on the simulator, recorded or not. tests/workloads/torch_forks.py is its program."""

    def __init__(self, python: Path, preload: bool = True, env: Optional[Mapping[str, Optional[str]]] = None):
        # Each program has its own card, of the size that its environment names.
        env = {"GPUMEM_SIM_CARD": "", **(env or {})}
        command = [python, "-W", "ignore", harness.WORKLOADS / "torch_forks.py"]
        self._folder = tempfile.TemporaryDirectory(prefix="gpumem-forks-")
        self._number = itertools.count()
        self._stderr = Path(self._folder.name) / "stderr"
        self._process = subprocess.Popen(
            harness.simulator_command(command), env=harness.clean_environment(harness.preloaded(env) if preload else env),
            cwd=self._folder.name, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr.open("ab"), text=True,
        )

    def run(
        self, argv: Sequence[harness.Arg], *, cwd: Path, env: Optional[Mapping[str, Optional[str]]] = None, devices: int = 1,
        memory: str = "16GiB", check: bool = True,
    ) -> harness.Done:
        """Runs a program, as `harness.simulate` does."""
        folder = Path(self._folder.name) / str(next(self._number))
        folder.mkdir()
        card = {"GPUMEM_SIM_DEVICES": str(devices), "GPUMEM_SIM_MEMORY": memory}
        program = {
            "argv": [str(part) for part in argv], "cwd": str(cwd), "env": {**card, **(env or {})},
            "stdout": str(folder / "stdout"),
        }
        before = self._stderr.stat().st_size
        self._process.stdin.write(json.dumps(program) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the process has ended: {self._process.poll()}"
        printed = [(folder / "stdout").read_bytes(), self._stderr.read_bytes()[before:]]
        texts = [text.decode(errors="replace") for text in printed]
        done = subprocess.CompletedProcess(program["argv"], int(answer), *texts)
        if check and done.returncode != 0:
            raise AssertionError(harness.described(done))
        return done

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()
        self._folder.cleanup()
