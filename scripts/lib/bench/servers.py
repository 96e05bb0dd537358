"""The measured processes: each executes commands of tests/workloads/bench_alloc.py, and they take turns."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Iterator, Optional, Sequence

from paths import LIBRARY, PROBE, WITH_SIMULATOR, WORKLOADS
from progress import progress


def clean_environment(**more: str) -> dict[str, str]:
    """This environment without variables for gpumem or PyTorch, and with `more`."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GPUMEM_", "PYTORCH_"))}
    return {**kept, **more}


class Server:
    """A process that executes commands."""

    def __init__(self, label: str):
        self.label = label
        self.process: Optional[subprocess.Popen] = None

    def start(self, command: Sequence, folder: Path, **environment: str) -> None:
        self.process = subprocess.Popen(
            command, env=clean_environment(**environment), cwd=folder, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )

    def ask(self, *words: object) -> Any:
        """The result of a command."""
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"bench: the process of {self.label!r} ended ({self.process.wait()})")
        return json.loads(answer)

    def stop(self) -> None:
        self.process.stdin.close()
        if self.process.wait(timeout=60) != 0:
            raise SystemExit(f"bench: the process of {self.label!r} failed")


class Configuration(Server):
    """A configuration of PyTorch: `stacks` is GPUMEM_STACKS (None: without the library), `recorder` the mode of
    PyTorch's own recorder, `place` a suffix that distinguishes its files from those of an equal configuration."""

    def __init__(
        self, label: str, stacks: Optional[str] = None, recorder: str = "off", place: str = "", library: Path = LIBRARY,
        sample: str = "off",
    ):
        super().__init__(label)
        self.stacks, self.recorder, self.place, self.library, self.sample = stacks, recorder, place, library, sample
        self.capture: Optional[Path] = None

    def run(self, python: str, folder: Path) -> None:
        environment = {}
        name = f"{self.stacks}-{self.sample}-{self.recorder}{self.place}"
        if self.stacks is not None:
            self.capture = folder / f"{name}.bin"
            environment = {
                "LD_PRELOAD": str(self.library), "GPUMEM_STACKS": self.stacks, "GPUMEM_STACK_SAMPLE": self.sample,
                "GPUMEM_QUIET": "1", "GPUMEM_OUTPUT": str(self.capture),
            }
        self.start(
            [WITH_SIMULATOR, "--devices", "8", "--memory", "8GiB", python, WORKLOADS / "bench_alloc.py",
             self.recorder, PROBE, folder / f"{name}-probe.bin"],
            folder, **environment,
        )


def alone() -> Configuration:
    return Configuration("PyTorch alone")


def recording(stacks: str, sample: str = "off") -> Configuration:
    label = f"gpumem, GPUMEM_STACKS={stacks}" + f" GPUMEM_STACK_SAMPLE={sample}" * (sample != "off")
    return Configuration(label, stacks=stacks, sample=sample)


@contextmanager
def running(python: str, folder: Path, *configurations: Configuration) -> Iterator[None]:
    """Runs the configurations in a new folder, and stops them when the block ends."""
    folder.mkdir()
    for configuration in configurations:
        configuration.run(python, folder)
    yield
    for configuration in configurations:
        configuration.stop()


def take_turns(
    what: str, rounds: int, servers: Sequence[Server], ask: Callable[[Server], Any]
) -> dict[Server, list]:
    """The results of each server in each round. An additional first round warms up."""
    answers: dict[Server, list] = {server: [] for server in servers}
    for number in range(rounds + 1):
        progress(f"{what}: round {number} of {rounds}")
        # Each round starts with a different server, so that no server always follows the same one.
        turn = number % len(servers)
        for server in [*servers[turn:], *servers[:turn]]:
            answer = ask(server)
            if number:
                answers[server].append(answer)
    return answers


def added(mine: Sequence[float], base: Sequence[float]) -> float:
    """Median of the additional time over the rounds."""
    return statistics.median(m - b for m, b in zip(mine, base))


def ratio(mine: Sequence[float], base: Sequence[float]) -> float:
    """Median of the time ratio over the rounds."""
    return statistics.median(m / b for m, b in zip(mine, base))
