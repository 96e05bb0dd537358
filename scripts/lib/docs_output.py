"""Writes the output of commands into the pages of docs/, for scripts/docs-output.

    <!-- output: gpumem-analyze lines report.bin -->
    ```console
    $ gpumem-analyze lines report.bin
    …
    ```

The block after such a comment is the command and what it prints. Words between `output` and the colon:

    (oom)          report.bin is the capture oom.bin of tests/data/captures; by default it is demo.bin
    (job)          the captures of the folder job there, under their own names
    first=N        only the first N lines
    from=TEXT      only the lines from the first one that contains TEXT (`_` stands for a space)
    part           only up to the next empty line
    item           only the first line, and the lines after it that are indented further
    exit=N         the command ends with this code; without it, with 0
    torch          the command needs PyTorch: it is left out by --quick. The program train.py is there

Lines that are left out appear as `…`. All captures are fixed files, so the output is the same on every machine. A picture is a
file that a command writes with `-o`, under the name that the page's image has:

    <!-- picture(oom): gpumem-analyze timeline report.bin -->
    ![What the image shows](../images/oom.svg)

An image `.png` of `gpumem-analyze html` is a picture of the page in a browser: docs_page.py."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import docs_page

ROOT = Path(__file__).resolve().parents[2]
BUILT = Path(os.environ.get("GPUMEM_BUILT") or ROOT / "target" / "release")
CAPTURES = ROOT / "tests" / "data" / "captures"
BLOCK = re.compile(
    r"^(?P<comment><!-- output(?P<words>[^:\n]*): (?P<command>[^\n]+?) -->)$(?:\n```console\n(?P<text>.*?)^```$)?",
    re.M | re.S,
)
PICTURE = re.compile(r"^<!-- picture(?P<words>[^:\n]*): (?P<command>[^\n]+?) -->\n!\[[^\]]*\]\((?P<path>[^)]+)\)", re.M)
SECONDS = 120


@dataclass
class Wanted:
    """The words of a comment."""

    capture: str = "demo"
    first: int = 0
    start: str = ""
    end: str = ""
    code: int = 0
    torch: bool = False


def wanted(words: str) -> Wanted:
    found = Wanted()
    for word in words.split():
        name, _, value = word.strip("()").partition("=")
        if name == "first":
            found.first = int(value)
        elif name == "from":
            found.start = value.replace("_", " ")
        elif name in ("part", "item"):
            found.end = name
        elif name == "exit":
            found.code = int(value)
        elif name == "torch":
            found.torch = True
        elif (CAPTURES / f"{name}.bin").exists() or (CAPTURES / name).is_dir():
            found.capture = name
        else:
            raise ValueError(f"{word!r} is neither a word of scripts/docs-output nor a capture")
    return found


def torch_python() -> str:
    """A Python with the PyTorch that made the captures."""
    command = [ROOT / "scripts" / "lib" / "environment", "torch215"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


class Machine:
    """A folder with the captures, in which the commands run as on any machine with gpumem."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        commands = folder / "bin"
        commands.mkdir()
        (commands / "gpumem-analyze").symlink_to(BUILT / "gpumem-analyze")
        self.environment = {
            "PATH": f"{commands}:{os.environ['PATH']}",
            "HOME": str(folder),
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "COLUMNS": "80",
            "NO_COLOR": "1",
        }
        self.has_torch = False

    def add_torch(self) -> None:
        """The command gpumem, of a Python with PyTorch."""
        if not self.has_torch:
            self.has_torch = True
            script = self.folder / "bin" / "gpumem"
            variables = f"PYTHONPATH={ROOT}/python GPUMEM_BUILT={BUILT}"
            script.write_text(f'#!/bin/sh\n{variables} exec {torch_python()} -B -m gpumem "$@"\n')
            script.chmod(0o755)

    def output(self, command: str, of: Wanted) -> str:
        """What a command prints, standard error included."""
        return self.run(command, of)[0]

    def file(self, command: str, of: Wanted, name: str) -> bytes:
        """The file that a command writes."""
        return (self.run(f"{command} -o {name}", of)[1] / name).read_bytes()

    def run(self, command: str, of: Wanted) -> tuple[str, Path]:
        """Runs a command in a folder with the captures."""
        if of.torch:
            self.add_torch()
        place = Path(tempfile.mkdtemp(dir=self.folder))
        if (CAPTURES / of.capture).is_dir():
            shutil.copytree(CAPTURES / of.capture, place, dirs_exist_ok=True)
        else:
            shutil.copy(CAPTURES / f"{of.capture}.bin", place / "report.bin")
        if of.torch:
            for program in ("train.py", "winds_up.py"):
                shutil.copy(ROOT / "tests" / "workloads" / program, place)
        done = subprocess.run(
            command, shell=True, cwd=place, env=self.environment, timeout=SECONDS, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        if done.returncode != of.code:
            raise ValueError(f"`{command}` ended with {done.returncode}, not {of.code}:\n{done.stdout}")
        return done.stdout, place


def shown(output: str, of: Wanted) -> str:
    """The lines of an output that are wanted."""
    lines = [line.rstrip() for line in output.rstrip("\n").split("\n")]
    before = False
    if of.start:
        places = [number for number, line in enumerate(lines) if of.start in line]
        if not places:
            raise ValueError(f"no line contains {of.start!r}:\n{output}")
        lines, before = lines[places[0]:], places[0] > 0
    length = end(lines, of.end)
    lines, after = lines[:length], length < len(lines)
    if of.first and len(lines) > of.first:
        lines, after = lines[: of.first], True
    return "\n".join(["…"] * before + lines + ["…"] * after)


def end(lines: list[str], kind: str) -> int:
    """How many of these lines belong to the part or item that they begin with."""
    depth = len(lines[0]) - len(lines[0].lstrip())
    for number, line in enumerate(lines[1:], 1):
        if kind == "part" and not line or kind == "item" and len(line) - len(line.lstrip()) <= depth:
            return number
    return len(lines)


def written(page: str, machine: Machine, quick: bool) -> str:
    """A page with the output of its commands."""

    def block(match: re.Match[str]) -> str:
        of = wanted(match["words"])
        if of.torch and quick and match["text"] is not None:
            return match[0]
        text = shown(machine.output(match["command"], of), of)
        return f"{match['comment']}\n```console\n$ {match['command']}\n{text}\n```"

    return BLOCK.sub(block, page)


def draw(page: Path, text: str, machine: Machine, check: bool) -> list[Path]:
    """The pictures of a page that are not fresh; draws them unless it only checks."""
    stale = []
    for match in PICTURE.finditer(text):
        path, of = page.parent / match["path"], wanted(match["words"])
        if path.suffix == ".png":
            shot = machine.file(match["command"], of, "page.html")
            fresh = docs_page.is_of(path, shot)
            if not fresh and not check:
                docs_page.take(shot, path)
        else:
            drawn = machine.file(match["command"], of, path.name)
            fresh = path.exists() and path.read_bytes() == drawn
            if not fresh and not check:
                path.write_bytes(drawn)
        stale += [] if fresh else [path]
    return stale


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/docs-output")
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a block is not fresh")
    parser.add_argument("--quick", action="store_true", help="leave out commands that need PyTorch")
    parser.add_argument("pages", nargs="*", type=Path, help="by default all pages of docs/, and README.md")
    options = parser.parse_args()
    pages = [page.resolve() for page in options.pages] or [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    stale, wrong = [], []
    with tempfile.TemporaryDirectory(prefix="gpumem-docs-") as folder:
        machine = Machine(Path(folder))
        for page in pages:
            before = page.read_text()
            name = os.path.relpath(page, ROOT)
            try:
                after = written(before, machine, options.quick)
                stale += [os.path.relpath(path, ROOT) for path in draw(page, before, machine, options.check)]
            except ValueError as error:
                wrong.append(f"{name}: {error}")
                continue
            if after != before:
                stale.append(name)
                if not options.check:
                    page.write_text(after)
    for line in wrong:
        print(line, file=sys.stderr)
    if stale:
        print(*(f"{page}: {'not fresh: scripts/docs-output' if options.check else 'written'}" for page in stale), sep="\n")
    return 1 if wrong or (stale and options.check) else 0


if __name__ == "__main__":
    sys.exit(main())
