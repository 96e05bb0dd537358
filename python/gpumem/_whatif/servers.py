"""Processes that replay, one for each processor."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from .._machine import installed, simulator

# Variables that would affect the replaying process.
_UNSET = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING", "CUDA_VISIBLE_DEVICES", "LD_PRELOAD")


class Failed(Exception):
    """There are no replays; the message is the reason."""


@dataclass(frozen=True)
class Request:
    """One replay."""

    capture: Path
    device: int
    # Bytes of the card.
    card: int
    settings: str
    # The assumption about what the capture does not record: unknown.py.
    assumed: int = 0
    # The replay stops when PyTorch reserves more than this, because it is then of no use. 0: no limit.
    most_reserved: int = 0
    # Where the replay is saved as a capture, and why it may differ from a run.
    save: Optional[Path] = None
    doubts: Sequence[str] = ()


@dataclass(frozen=True)
class Replay:
    """The result of a replay."""

    request: Request
    # PyTorch's own figures, from torch.cuda.memory_stats().
    figures: Dict[str, int]
    outcome: Dict[str, int]
    # Calls of CUDA by the allocator: succeeded and failed.
    calls: Dict[str, Tuple[int, int]]
    torch: str
    # The smallest card on which all allocations of the recorded run succeed, except those that failed there.
    smallest_card: Optional[int] = None

    @property
    def fits(self) -> bool:
        return self.outcome["failed_seq"] == 0

    @property
    def stopped(self) -> bool:
        """Whether it was stopped because it was of no use: its figures are those until then."""
        return self.outcome["stopped_seq"] != 0


Progress = Callable[[float], None]


class Servers:
    """Replays requests; a context manager."""

    def __init__(self, python: str, jobs: int):
        self._jobs = jobs
        library = installed.replayer()
        self._command = [python, "-m", "gpumem._whatif.child", str(library)]
        base = {name: value for name, value in os.environ.items() if not _changes(name)}
        others = os.environ.get("PYTHONPATH")
        base.update(LD_PRELOAD=installed.preloadable(library), PYTHONPATH=f"{installed.FOLDER}:{others}" if others else installed.FOLDER)
        # A separate card for each process, on which only the replay has memory.
        costs = ("CONTEXT", "MODULE", "STREAM")
        card = {"GPUMEM_SIM_CARD": "", **{f"GPUMEM_SIM_{what}_BYTES": "0" for what in costs}}
        self._environment = simulator.environment(python, base, card)
        self._running: List[_Process] = []

    def __enter__(self) -> Servers:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running:
            process.end()

    def _start(self) -> None:
        self._running.append(_Process(self._command, self._environment))

    def all(self, requests: Sequence[Request], progress: Optional[Progress] = None) -> List[Replay]:
        """All replays, in the order of the requests."""
        waiting: queue.Queue[int] = queue.Queue()
        for number in range(len(requests)):
            waiting.put(number)
        done: List[Optional[Replay]] = [None] * len(requests)
        parts = [0.0] * len(requests)
        failures: List[str] = []

        def told(number: int, of: float) -> None:
            parts[number] = of
            if progress:
                progress(sum(parts) / len(parts))

        def work(process: _Process) -> None:
            while not failures:
                try:
                    number = waiting.get_nowait()
                except queue.Empty:
                    return
                try:
                    done[number] = self._one(process, requests[number], lambda of: told(number, of))
                except Failed as error:
                    failures.append(str(error))
                told(number, 1.0)

        wanted = min(self._jobs, len(requests))
        while len(self._running) < wanted:
            self._start()
        threads = [threading.Thread(target=work, args=(process,), daemon=True) for process in self._running[:wanted]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise Failed(failures[0])
        return [replay for replay in done if replay]

    def _one(self, process: _Process, request: Request, progress: Progress) -> Replay:
        words: Dict[str, Any] = {
            "capture": str(request.capture), "device": request.device, "card": request.card,
            "settings": request.settings, "assumed": request.assumed, "most_reserved": request.most_reserved,
            "save": str(request.save) if request.save else None, "doubts": list(request.doubts),
        }  # fmt: skip
        for said in process.asked(words):
            if "progress" in said:
                progress(said["progress"])
            elif "error" in said:
                raise Failed(said["error"])
            else:
                calls = {name: (succeeded, failed) for name, (succeeded, failed) in said["calls"].items()}
                return Replay(request, said["figures"], said["outcome"], calls, said["torch"])
        raise Failed(f"the replaying process ended: {process.last_words()}")


class _Process:
    """A process that replays: child.py."""

    def __init__(self, command: Sequence[str], environment: Dict[str, str]):
        # A file, because PyTorch's warnings are not read during a replay, and a pipe could fill up.
        self._errors = tempfile.TemporaryFile("w+", errors="replace")
        self._process = subprocess.Popen(
            command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
        )

    def asked(self, words: Dict[str, Any]) -> Iterator[Dict[str, Any]]:
        """Sends a request. Returns its lines of JSON until the process ends."""
        assert self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write(json.dumps(words) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has printed the reason
        for line in self._process.stdout:
            try:
                yield json.loads(line)
            except ValueError:
                pass  # output of another library

    def last_words(self) -> str:
        self._process.wait()
        self._errors.seek(0)
        return (self._errors.read().strip().splitlines() or ["it printed no message"])[-1]

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._errors.close()


def _changes(name: str) -> bool:
    return name in _UNSET or name.startswith("GPUMEM_")
