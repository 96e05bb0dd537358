"""Two runs of workloads/steady.c at the same time, one with the recorder and one without. Measures how much longer
calls of the driver take with it, and whether anything else differs."""

from __future__ import annotations

import contextlib
import re
import struct
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator, Mapping, Optional

import harness

THREADS, STATUS = 8, 7
# Bytes of its largest block.
LARGEST = 64 * 512
# Nanoseconds that a call may take longer with the recorder.
MORE = 10_000_000
HEAD, PART, LONG, LONGS = struct.Struct("<10Q"), struct.Struct("<6Q"), struct.Struct("<4Q"), 1000
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
    end: int
    longs: list[tuple[int, int, int, int]]
    held: int
    status: Optional[int] = None
    output: str = ""
    errors: str = ""
    # Nanoseconds from the program's last line to its end.
    ending: int = 0

    @property
    def says(self) -> list[str]:
        """The recorder's lines."""
        return [line for line in self.errors.splitlines() if line.startswith("gpumem: ")]

    @property
    def others(self) -> list[str]:
        return [line for line in self.errors.splitlines() if not line.startswith("gpumem: ")]

    @property
    def longest(self) -> int:
        """Nanoseconds of the longest call, without the time in which another thread waited for a processor during an
        overlapping call: this call may have waited for that thread."""
        longest = 0
        for place, (start, end, held, _) in enumerate(self.longs):
            excused = 0
            for other, (other_start, other_end, _, ready) in enumerate(self.longs):
                overlap = min(end, other_end) - max(start, other_start)
                if other != place and overlap > 0:
                    excused += min(ready, overlap)
            longest = max(longest, held - excused)
        return max(longest, min(self.held, 500_000))


def figures_of(path: Path) -> Figures:
    content = path.read_bytes()
    threads, _, _, _, opening, allocations, frees, live, peak, end = HEAD.unpack_from(content)
    longs, held = [], 0
    size = PART.size + LONGS * LONG.size
    for number in range(threads):
        place = HEAD.size + number * size
        _, longest, _, _, _, count = PART.unpack_from(content, place)
        held = max(held, longest)
        assert count <= LONGS, "more long calls than are listed"
        longs += list(LONG.iter_unpack(content[place + PART.size : place + PART.size + count * LONG.size]))
    return Figures(opening, allocations, frees, live, peak, end, longs, held)


class Run:
    """One process of steady.c."""

    def __init__(self, client: Path, folder: Path, seconds: float, env: Mapping[str, Optional[str]]):
        folder.mkdir()
        self.file = folder / "figures"
        self.errors = open(folder / "stderr", "w+")
        self.output = open(folder / "stdout", "w+")
        self.process = subprocess.Popen(
            harness.simulator_command([client, str(THREADS), str(seconds), str(STATUS), self.file]),
            cwd=folder, stdin=subprocess.PIPE, stdout=self.output, stderr=self.errors,
            env=harness.clean_environment({"GPUMEM_SIM_CARD": "", **env}),
        )

    def steps(self) -> int:
        """The fewest rounds that a thread has done; -1 before all have begun."""
        try:
            content = self.file.read_bytes()
        except FileNotFoundError:
            return -1
        if len(content) < HEAD.size or HEAD.unpack_from(content)[2] < THREADS:
            return -1
        size = PART.size + LONGS * LONG.size
        return min(struct.unpack_from("<Q", content, HEAD.size + n * size)[0] for n in range(THREADS))

    def ended(self) -> int:
        """How many threads have done all their rounds."""
        return HEAD.unpack_from(self.file.read_bytes())[3]

    def awaits(self, rounds: int) -> None:
        """Waits until each thread has done `rounds` rounds, or the process has ended."""
        while self.process.poll() is None and self.steps() < rounds:
            time.sleep(0.002)

    def end(self, line: bytes) -> None:
        """Has the program end, and waits until it has printed its last line, and the recorder `line`."""
        self.process.stdin.close()
        until = time.monotonic() + 20
        while not (self.printed(self.output, b"checksum") and self.printed(self.errors, line)):
            assert time.monotonic() < until, f"{self.file.parent.name} does not come to its end"
            time.sleep(0.01)

    @staticmethod
    def printed(file, text: bytes) -> bool:
        with open(f"/proc/self/fd/{file.fileno()}", "rb") as again:
            return text in again.read()

    def finish(self, timeout: float) -> Figures:
        self.process.stdin.close()
        try:
            status = self.process.wait(timeout=timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"{self.file.parent.name}: the program does not end; {self.ended()} of {THREADS} threads have"
            ) from None
        now = time.monotonic_ns()
        found = figures_of(self.file)
        found.ending = now - found.end if found.end else 0
        for file in (self.output, self.errors):
            file.seek(0)
        found.status, found.output, found.errors = status, self.output.read(), self.errors.read()
        return found

    def close(self) -> None:
        self.process.kill()
        self.process.stdin.close()
        # Where a disk still holds it, its end comes when the disk is gone.
        try:
            self.process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            pass
        self.output.close()
        self.errors.close()


class Beside:
    """Both runs."""

    def __init__(self, without: Run, recorded: Run):
        self.without, self.recorded = without, recorded

    def awaits(self, rounds: int) -> None:
        """Waits until both have begun and done `rounds` rounds."""
        self.without.awaits(rounds)
        self.recorded.awaits(rounds)

    def lives_on(self, seconds: float) -> None:
        """Waits until the one without the recorder has done the rounds of `seconds`, whatever the other does."""
        self.without.awaits(self.without.steps() + rounds_of(seconds))

    def end(self) -> None:
        """Has both do all but be gone."""
        self.without.end(b"")
        self.recorded.end(b"is incomplete")

    def finish(self, timeout: float = 20) -> tuple[Figures, Figures]:
        """Ends both: figures without and with the recorder."""
        without = self.without.finish(timeout)
        return without, self.recorded.finish(timeout)


def rounds_of(seconds: float) -> int:
    """PACE_US of steady.c plus the minimum duration of a round."""
    return int(seconds * 1e6 / 2_100)


@contextlib.contextmanager
def beside(
    client: Path, folder: Path, output: Path, *, seconds: float = 0.3, env: Optional[Mapping[str, str]] = None
) -> Iterator[Beside]:
    """Starts steady.c without the recorder and with it, the capture going to `output`. Whatever is still
    alive at the end is killed."""
    folder.mkdir(exist_ok=True)
    runs: list[Run] = []
    try:
        runs.append(Run(client, folder / "without", seconds, {}))
        recorder = harness.preloaded({"GPUMEM_OUTPUT": str(output), **(env or {})})
        runs.append(Run(client, folder / "recorded", seconds, recorder))
        yield Beside(*runs)
    finally:
        for run in runs:
            run.close()


def assert_unharmed(without: Figures, recorded: Figures) -> None:
    """Nothing differs but for at most two lines of the recorder's, and no call took MORE."""
    assert (recorded.status, recorded.output, recorded.others) == (without.status, without.output, without.others), (
        f"with the recorder: exit {recorded.status}\n{recorded.output}{recorded.errors}"
    )
    assert without.status == STATUS and without.output.startswith(f"{THREADS} threads, ")
    more = recorded.longest - without.longest
    assert more <= MORE, f"a call took {more / 1e6:.1f} ms more ({without.longest / 1e6:.1f} ms without the recorder)"
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
    done = harness.analyze(command, "--format", "json", path, check=False, timeout=60)
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
