"""One run of a program on a simulated card, recorded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, cast

from .._launch import launcher
from .._machine import simulator
from .._reading.analysis import analyzed
from . import inside
from .form import Read

# Variables that would change the run, which represents another machine.
_UNSET = ("CUDA_VISIBLE_DEVICES", "CUDA_MODULE_LOADING")
# CPython up to 3.13 stops PyTorch's backward thread inside a C++ function when the program ends first. This is a race
# in PyTorch; the program itself has completed.
_RACE_AT_EXIT = "terminate called without an active exception"
_TRACEBACK = "Traceback (most recent call last):"
_LAST_WORDS = 4096
# The end of the output in which a program's last traceback is searched for.
_TRACEBACK_WITHIN = 64 << 10
# Programs of all threads.
_running: Set["subprocess.Popen[bytes]"] = set()
# Held while a program is started, and while all of them are ended.
_starting = threading.Lock()
_is_over = threading.Event()
# The longest time, in seconds, between a signal and its handler.
_STEP = 0.25


class Failed(Exception):
    """There is no plan; the message is the reason."""


@dataclass(frozen=True)
class Wanted:
    """The program to run, and its settings."""

    command: Sequence[str]
    # Settings of the simulated card, and of the program's environment.
    card: Mapping[str, str]
    changes: Dict[str, str] = field(default_factory=dict)
    # The parts that run inside the program.
    parts: Sequence[str] = ()
    timeout: Optional[float] = None


@dataclass(frozen=True)
class Device:
    """The use of a GPU by one process."""

    capture: Path
    summary: Dict[str, Any]
    figures: Dict[str, Any]

    @property
    def ordinal(self) -> int:
        return int(self.figures["ordinal"])

    @property
    def needed(self) -> int:
        """The peak of its memory on the card."""
        physical = self.figures["physical"] or {}
        return int(physical.get("peak_bytes") or 0)


@dataclass(frozen=True)
class Run:
    """The result of a run."""

    wanted: Wanted
    status: int
    captures: List[Path]
    summaries: List[Dict[str, Any]]
    # The program's output, and the end of it.
    output: Path
    last_words: str
    # Where the program read values that only a real card would have: records of inside/lines.py.
    reads: List[Read]
    # Bytes of weights that were left out (--no-weights), by reason.
    left_out: Dict[str, int]
    seconds: float
    timed_out: bool = False

    @property
    def devices(self) -> List[Device]:
        return [
            Device(capture, summary, figures)
            for capture, summary in zip(self.captures, self.summaries)
            for figures in summary["devices"]
        ]

    @property
    def out_of_memory(self) -> bool:
        """Whether it ended because memory ran out."""
        return self.status != 0 and any(summary["out_of_memory_events"] for summary in self.summaries)

    @property
    def went_well(self) -> bool:
        return self.status == 0


def _run(wanted: Wanted, folder: Path, name: str) -> Run:
    """Runs the program to its end; captures and its output go into the folder. The processes of the run share its
    cards."""
    listed, output = folder / f"{name}.captures", folder / f"{name}.output"
    handle, cards = tempfile.mkstemp(prefix="gpumem-cards.")
    os.close(handle)
    base = {key: value for key, value in os.environ.items() if key not in _UNSET}
    base.update(wanted.changes)
    base.update(
        GPUMEM_OUTPUT=str(folder / f"{name}.%p.bin"), GPUMEM_LIST=str(listed), GPUMEM_QUIET="1", GPUMEM_POSTMORTEM="off",
        PYTHONUNBUFFERED="1",
    )  # fmt: skip
    reads = folder / f"{name}.reads"
    if wanted.parts:
        base = inside.environment(wanted.parts, {**base, "GPUMEM_PLAN_LINES": str(reads)})
    listed.touch()
    command = launcher.command_of(wanted.command)
    why = simulator.refusal(command[0])
    if why:
        raise Failed(f"{command[0]}: {why}")
    env = simulator.environment(command[0], launcher.environment({}, base), {**wanted.card, "GPUMEM_SIM_CARD": cards})
    began = time.monotonic()
    try:
        with open(output, "wb") as said:
            with _starting:
                if _is_over.is_set():
                    raise Failed("the plan was ended")
                process = subprocess.Popen(
                    command, env=env, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, start_new_session=True
                )
                _running.add(process)
            try:
                status, timed_out = process.wait(wanted.timeout), False
            except subprocess.TimeoutExpired:
                _end(process)
                status, timed_out = process.wait(), True
            except BaseException:
                _end(process)
                process.wait()
                raise
            finally:
                _running.discard(process)
    except OSError as error:
        raise Failed(f"{command[0]}: {error.strerror}") from None
    finally:
        os.unlink(cards)
    captures = launcher.listed_captures(str(listed))
    summaries = [analyzed(capture, "report", "--all") for capture in captures]
    words = _last_words(output)
    if status == -signal.SIGABRT and _RACE_AT_EXIT in words and _TRACEBACK not in _last_words(output, _TRACEBACK_WITHIN):
        status = 0
    said_inside = records(reads)
    return Run(
        wanted, status, captures, summaries, output, words, unknown_reads(said_inside), left_out(said_inside),
        time.monotonic() - began, timed_out,
    )  # fmt: skip


def records(path: Path) -> List[Dict[str, Any]]:
    """The records of the parts inside the program."""
    if not path.exists():
        return []
    found = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue  # its process ended during the write
    return found


def unknown_reads(said: List[Dict[str, Any]]) -> List[Read]:
    """Reads of values that are unknown or were assumed, the most frequent first."""
    found = [cast(Read, record) for record in said if record.get("kind") == "read" and (record["unknown"] or record["assumed"])]
    return sorted(found, key=lambda record: -record["unknown"])


def left_out(said: List[Dict[str, Any]]) -> Dict[str, int]:
    """Bytes of weights that all processes left out; empty if weights were kept."""
    sums: Dict[str, int] = {}
    for record in said:
        if record.get("kind") == "weights":
            for why in ("not_read", "not_drawn", "not_there"):
                sums[why] = sums.get(why, 0) + record[why]
    return sums


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Ends the program and all its processes."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _last_words(output: Path, most: int = _LAST_WORDS) -> str:
    with open(output, "rb") as said:
        said.seek(max(os.fstat(said.fileno()).st_size - most, 0))
        return said.read().decode("utf-8", "replace")


def _wait(futures: "Sequence[Future[Run]]") -> None:
    """Waits for all, or for the first that fails. The main thread runs Python's handlers, but a signal does not end its wait
    if another thread gets the signal, or if it comes just before the wait. Nothing is locked meanwhile."""
    ended: "SimpleQueue[Future[Run]]" = SimpleQueue()
    for future in futures:
        future.add_done_callback(ended.put)
    waiting = len(futures)
    while waiting:
        try:
            ended.get(timeout=_STEP).result()
        except Empty:
            continue
        waiting -= 1


def runs(all_: Sequence[Wanted], folder: Path, names: Sequence[str], jobs: int) -> List[Run]:
    """Several runs, `jobs` of them at a time; the results are in their order."""
    with ThreadPoolExecutor(max(jobs, 1)) as pool:
        futures: List["Future[Run]"] = []
        try:
            futures.extend(pool.submit(_run, wanted, folder, name) for wanted, name in zip(all_, names))
            _wait(futures)
            return [future.result() for future in futures]
        except BaseException:
            # The pool waits for its threads, which wait for their programs.
            for future in futures:
                future.cancel()
            # A program that is just being started is in the set afterwards; none starts later.
            with _starting:
                _is_over.set()
                for process in list(_running):
                    _end(process)
            raise
