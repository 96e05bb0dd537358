"""Captures for datasets, and the contents of a dataset."""

from __future__ import annotations

import hashlib
import struct
import subprocess
import zlib
from pathlib import Path

import harness

TRAINING = harness.ROOT / "tests" / "fixtures" / "captures" / "v1" / "torch-return.bin"
KILLED = TRAINING.with_name("torch-kill.bin")


def capture(path: Path, pid: int, of: Path = TRAINING) -> Path:
    """A capture of another process: its number in both headers is another."""
    contents = bytearray(of.read_bytes())
    for header in (0, 2048):
        struct.pack_into("<I", contents, header + 48, pid)
        struct.pack_into("<I", contents, header + 508, zlib.crc32(contents[header : header + 508]))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(contents)
    return path


def captures(folder: Path, count: int) -> Path:
    """A folder of captures."""
    for number in range(count):
        capture(folder / f"report.rank{number}.bin", 1000 + number)
    return folder


def fleet(*arguments, env=None, check: bool = True):
    """Runs `gpumem-analyze fleet`."""
    return harness.run([harness.ANALYZER, "fleet", *arguments], env=env, check=check)


def fleet_json(command: str, *arguments, env=None, check: bool = True):
    """The JSON output of a fleet command."""
    return harness.unwrapped(fleet(command, "--format", "json", *arguments, env=env, check=check).stdout)


def started(*arguments, env=None) -> subprocess.Popen:
    """The same in the background."""
    return subprocess.Popen(
        [str(part) for part in (harness.ANALYZER, "fleet", *arguments)],
        env=harness.clean_environment(env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )


def contents(dataset: Path) -> dict[str, str]:
    """A dataset's files by hash, without the lock, whose length counts changes."""
    files = [path for path in sorted(dataset.rglob("*")) if path.is_file() and path.name != "_lock"]
    return {str(path.relative_to(dataset)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
