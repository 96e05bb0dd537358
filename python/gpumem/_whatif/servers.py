"""Processes that replay, as many beside one another as there are processors."""

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

from .. import _files, _simulator

# What would change what the replaying process does.
_UNSET = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING", "CUDA_VISIBLE_DEVICES", "LD_PRELOAD")


class Failed(Exception):
    """There are no replays, for the reason in it."""


@dataclass(frozen=True)
class Request:
    """One replay."""

    capture: Path
    device: int
    # Bytes of the card.
    card: int
    settings: str
    # What is taken for what the capture does not say: unknown.py.
    assumed: int = 0
    # It ends once PyTorch holds more: then it is of no use. 0: it goes on.
    most_reserved: int = 0
    # Where the replay is written as a capture, and why it may differ from a run.
    save: Optional[Path] = None
    doubts: Sequence[str] = ()


@dataclass(frozen=True)
class Replay:
    """What came of it."""

    request: Request
    # PyTorch's own, by torch.cuda.memory_stats().
    figures: Dict[str, int]
    outcome: Dict[str, int]
    # Calls of CUDA by the allocator: those that succeeded and those that failed.
    calls: Dict[str, Tuple[int, int]]
    torch: str
    # The least card on which nothing fails that did not fail in the recorded run.
    smallest_card: Optional[int] = None

    @property
    def fits(self) -> bool:
        return self.outcome["failed_seq"] == 0

    @property
    def stopped(self) -> bool:
        """Whether it ended since it was of no use: its figures are those up to there."""
        return self.outcome["stopped_seq"] != 0


Progress = Callable[[float], None]


class Servers:
    """Replays requests; as a context."""

    def __init__(self, python: str, jobs: int):
        self._jobs = jobs
        library = _files.replayer()
        self._command = [python, "-m", "gpumem._whatif.child", str(library)]
        base = {name: value for name, value in os.environ.items() if not _changes(name)}
        package = str(Path(_files.__file__).resolve().parent.parent)
        others = os.environ.get("PYTHONPATH")
        base.update(LD_PRELOAD=_files.preloadable(library), PYTHONPATH=f"{package}:{others}" if others else package)
        # A card of its own for each process, with nothing on it but what the replay puts there.
        costs = ("CONTEXT", "MODULE", "STREAM")
        card = {"GPUMEM_SIM_CARD": "", **{f"GPUMEM_SIM_{what}_BYTES": "0" for what in costs}}
        self._environment = _simulator.environment(python, base, card)
        self._running: List[_Process] = []

    def __enter__(self) -> Servers:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running:
            process.end()

    def _start(self) -> None:
        self._running.append(_Process(self._command, self._environment))

    def all(self, requests: Sequence[Request], progress: Optional[Progress] = None) -> List[Replay]:
        """All of them, in their order."""
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
        # A file: nobody reads what PyTorch warns of while a replay runs, and a pipe would be full at some time.
        self._errors = tempfile.TemporaryFile("w+", errors="replace")
        self._process = subprocess.Popen(
            command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
        )

    def asked(self, words: Dict[str, Any]) -> Iterator[Dict[str, Any]]:
        """What it says to that, until it has ended."""
        assert self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write(json.dumps(words) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has said why
        for line in self._process.stdout:
            try:
                yield json.loads(line)
            except ValueError:
                pass  # a library's own words

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
