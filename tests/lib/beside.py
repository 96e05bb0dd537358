"""Runs of workloads/steady.c with the recorder, beside which the disk of the capture fails, and one without it. Shows
whether calls of the driver wait, and whether anything else differs."""

from __future__ import annotations

import contextlib
import os
import re
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator, Mapping, Optional

import harness
from waiting import until

THREADS, ROUNDS, STATUS = 8, 100, 7
# Bytes of its largest block.
LARGEST = 64 * 512
HEAD, PART = struct.Struct("<9Q"), struct.Struct("<6Q")
# The line at the end of a run that lost nothing.
WROTE = re.compile(r"gpumem: wrote (\S+)\. Read it with: gpumem-analyze \S+$")


@dataclass
class Figures:
    """What steady.c leaves in its FILE, and how it ended."""

    opening: int
    allocations: int
    frees: int
    live: int
    peak: int
    # Of all threads: nanoseconds of the longest call, and how often a call waited.
    longest: int
    waits: int
    status: int
    output: str
    errors: str

    @property
    def says(self) -> list[str]:
        """The recorder's lines."""
        return [line for line in self.errors.splitlines() if line.startswith("gpumem: ")]

    @property
    def others(self) -> list[str]:
        return [line for line in self.errors.splitlines() if not line.startswith("gpumem: ")]


class Run:
    """One process of steady.c."""

    def __init__(self, client: Path, folder: Path, env: Mapping[str, Optional[str]]):
        folder.mkdir()
        # In memory: no thread of the program waits for a disk because of it.
        self.file = os.memfd_create("figures")
        self.errors, self.output = folder / "stderr", folder / "stdout"
        with open(self.errors, "w") as errors, open(self.output, "w") as output:
            self.process = subprocess.Popen(
                harness.simulator_command([client, str(THREADS), str(ROUNDS), str(STATUS), f"/proc/self/fd/{self.file}"]),
                cwd=folder, stdin=subprocess.PIPE, stdout=output, stderr=errors, pass_fds=(self.file,),
                env=harness.clean_environment({"GPUMEM_SIM_CARD": "", **env}),
            )

    def _parts(self) -> list[tuple[int, ...]]:
        """Of each thread: its rounds, longest call, waits. None before all threads have begun."""
        content = os.pread(self.file, HEAD.size + THREADS * PART.size, 0)
        if len(content) < HEAD.size or HEAD.unpack_from(content)[2] < THREADS:
            return []
        return list(PART.iter_unpack(content[HEAD.size :]))

    def steps(self) -> list[int]:
        """The rounds that each thread has done."""
        return [part[0] for part in self._parts()] or [0] * THREADS

    def goes_on(self, rounds: int = ROUNDS) -> None:
        """Waits until each thread has done `rounds` further rounds. A thread that waits for a frozen disk never does."""
        before = self.steps()

        def done():
            assert self.process.poll() is None, f"the program has ended: {self.errors.read_text()}"
            return all(now - then >= rounds for now, then in zip(self.steps(), before))

        until(done, lambda: f"{rounds} more rounds of each thread than {before}: {self.steps()}, {self.threads()}")

    def threads(self) -> list[tuple[str, str]]:
        """The name and the state of each thread; "D" is a wait that no signal ends, as for a disk."""
        found = []
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            with contextlib.suppress(OSError):  # it has ended
                name, rest = (task / "stat").read_text().split("(", 1)[1].rsplit(") ", 1)
                found.append((name, rest[0]))
        return found

    def says(self, text: str) -> None:
        """Waits until the recorder has printed `text`."""
        until(lambda: text in self.errors.read_text(), lambda: f"{text!r} in {self.errors.read_text()!r}")

    def end(self) -> None:
        """Lets the program end, and waits until it has printed its last line."""
        self.process.stdin.close()
        until(lambda: "checksum" in self.output.read_text(), lambda: f"the program's last line: {self.threads()}")

    def finish(self) -> Figures:
        self.process.stdin.close()
        until(lambda: self.process.poll() is not None, lambda: f"the end of the program: {self.threads()}")
        _, _, _, _, opening, allocations, frees, live, peak = HEAD.unpack(os.pread(self.file, HEAD.size, 0))
        parts = self._parts()
        return Figures(
            opening, allocations, frees, live, peak, max((part[1] for part in parts), default=0),
            sum(part[2] for part in parts), self.process.returncode, self.output.read_text(), self.errors.read_text(),
        )

    def close(self) -> None:
        self.process.kill()
        self.process.stdin.close()
        # Where a disk still holds it, its end comes when the disk is gone.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=1)
        os.close(self.file)


@contextlib.contextmanager
def started(client: Path, folder: Path, env: Optional[Mapping[str, Optional[str]]] = None) -> Iterator[Run]:
    """A run with that environment. If it is still alive at the end, it is killed."""
    run = Run(client, folder, env or {})
    try:
        yield run
    finally:
        run.close()


def recorded(client: Path, folder: Path, output: Path, **env: str):
    """A run with the recorder."""
    return started(client, folder, harness.preloaded({"GPUMEM_OUTPUT": str(output), **env}))


def assert_unharmed(without: Figures, recorded: Figures) -> None:
    """Nothing differs but for at most two lines of the recorder's, and calls do not wait: not more than one in ten, as
    for a lock of another thread that has no processor."""
    assert (recorded.status, recorded.output, recorded.others) == (without.status, without.output, without.others), (
        f"with the recorder: exit {recorded.status}\n{recorded.output}{recorded.errors}"
    )
    assert without.status == STATUS and without.output.startswith(f"{THREADS} threads, ")
    calls = recorded.allocations + recorded.frees
    assert recorded.waits * 10 <= calls, f"calls waited {recorded.waits} times, of {calls} calls"
    assert len(recorded.says) <= 2, recorded.says


@dataclass
class Left:
    """The output of gpumem-analyze for a capture."""

    path: Path
    codes: tuple[int, int]
    check: Optional[dict]
    summary: Optional[dict]

    @property
    def exact(self) -> bool:
        return self.codes[1] == 0


def _analyzed(command: str, path: Path) -> tuple[int, Optional[dict]]:
    done = harness.analyze(command, "--format", "json", path, check=False)
    assert done.returncode in (0, 1, 3) and "panicked" not in done.stderr, harness.described(done)
    if done.returncode == 1:
        lines = done.stderr.strip().splitlines()
        assert len(lines) == 1 and path.name in lines[0] and not done.stdout, harness.described(done)
        return 1, None
    return done.returncode, harness.unwrapped(done.stdout)


def examined(path: Path, recorded: Figures) -> Left:
    """Checks a capture of the run: each command ends with a documented exit code. A capture that is called exact has
    the program's figures; otherwise the output states what is missing."""
    (checked, check), (summed, summary) = _analyzed("check", path), _analyzed("summary", path)
    if summary is not None and summed == 3:
        assert summary["missing"] and not summary["exact"], summary
    if summary is not None and summed == 0:
        assert summary["exact"] and summary["missing"] == [], summary
        assert_figures(summary, recorded)
    return Left(path, (checked, summed), check, summary)


def assert_figures(summary: dict, recorded: Figures) -> None:
    """The figures equal the program's calls and the simulator's books. With several threads, a peak may lack calls
    in progress: they are recorded slightly later, or slightly earlier, than the driver does them."""
    driver = harness.device_of(summary)["driver"]
    found = [driver[key] for key in ("allocations", "frees", "live_bytes")]
    assert found == [recorded.allocations, recorded.frees, recorded.live], summary
    under_way = THREADS * LARGEST
    assert recorded.peak - under_way <= driver["peak_bytes"] <= recorded.peak, (driver, recorded.peak)


def left_in(folder: Path, recorded: Figures) -> list[Left]:
    """The captures in a folder, each right or marked as wrong by gpumem-analyze."""
    return [examined(path, recorded) for path in sorted(folder.glob("*.bin"))]


def assert_told(folder: Path, recorded: Figures) -> list[Left]:
    """The contents of a folder: an exact capture and the line that names it, or a line that reports what happened to
    the recording."""
    left = left_in(folder, recorded)
    whole = bool(left) and all(each.exact for each in left)
    told = [line for line in recorded.says if not WROTE.match(line)]
    assert whole or told, f"{[each.codes for each in left]}, but the program's stderr says {recorded.says}"
    return left
