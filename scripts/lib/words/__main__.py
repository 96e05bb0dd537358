"""The words that people read: pages, help, messages and comments. Prints `file:line: what, what to write instead`.

    python scripts/lib/words                checks everything; exits 1 if it finds something
    python scripts/lib/words FILE…          only these files, or files below these folders
    python scripts/lib/words --measure …    the readability of each page (also of pages of other projects)
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

import checks
import text

ROOT = Path(__file__).resolve().parents[3]
PHRASES = ROOT / "tests" / "data" / "words.txt"
ANALYZER = Path(os.environ.get("GPUMEM_BUILT") or ROOT / "target" / "release") / "gpumem-analyze"

PAGES = ("*.md", "*/**/*.md")
RUST = ("analyzer/**/src/**/*.rs", "interposer/src/**/*.rs")
PYTHON = ("python/gpumem/**/*.py",)
COMMENTED = (".rs", ".ts", ".py", ".sh", ".c", ".cpp", ".toml", ".yml")
# Made by a program.
COPIED = re.compile(r"^web/dist/")
# Copies of other projects' files, and words that are data.
NOT_OURS = re.compile(r"/(target|node_modules|\.venv)/|/tests?\.rs$|/tests/")


def files(patterns):
    found = {path for pattern in patterns for path in ROOT.glob(pattern)}
    return sorted(path for path in found if not NOT_OURS.search(str(path.relative_to(ROOT))))


def sources():
    """(name, blocks) of everything that is checked."""
    for path in files(PAGES):
        page = path.read_text()
        yield str(path.relative_to(ROOT)), text.markdown(text.newest_section(page) if path.name == "CHANGELOG.md" else page)
    for path in files(RUST):
        yield str(path.relative_to(ROOT)), text.rust(path.read_text())
    for path in files(PYTHON):
        yield str(path.relative_to(ROOT)), text.python(path.read_text())
    for path in commented():
        source, suffix = path.read_text(), path.suffix if path.suffix in text.COMMENT else ""
        blocks = text.comments(source, suffix) + (text.docstrings(source) if path.suffix == ".py" else [])
        yield str(path.relative_to(ROOT)), blocks
    for name, page in help_pages():
        yield name, text.help_page(page)


def commented():
    """Files of the repository whose comments are read: programs, scripts and their settings."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.split("\0"):
        path = ROOT / name
        if name and path.is_file() and (path.suffix in COMMENTED or path.parent == ROOT / "scripts") and not COPIED.search(name):
            yield path


def help_pages():
    """What `--help` of each command prints; of gpumem-analyze only where it is built."""
    package = {"PYTHONPATH": str(ROOT / "python"), "PATH": "/usr/bin:/bin", "COLUMNS": "80"}
    yield "gpumem --help", output([sys.executable, "-m", "gpumem", "--help"], package)
    if not ANALYZER.exists():
        return
    first = output([str(ANALYZER), "--help"])
    yield "gpumem-analyze --help", first
    commands = re.search(r"^Commands:\n(.*?)\n\n", first, re.S | re.M)
    for command in re.findall(r"^  (\w[\w-]*)", commands[1] if commands else "", re.M):
        if command != "help":
            yield f"gpumem-analyze {command} --help", output([str(ANALYZER), command, "--help"])


def output(command, environment=None):
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60).stdout


def findings_of(name, blocks, phrases, prose):
    found = set()
    for block in blocks:
        found.update(phrases.check(name, block))
        found.update(checks.long_sentences(block))
    found.update(prose.check(blocks))
    if name.endswith(".md"):
        figure = checks.lix(blocks)
        if figure is not None and figure > checks.HIGHEST_LIX:
            found.add((1, f"LIX {figure:.1f} is above {checks.HIGHEST_LIX:.0f}", "shorter sentences and shorter words"))
    return sorted(found)


def measure(paths):
    for path in paths or files(PAGES):
        figure = checks.lix(text.markdown(Path(path).read_text()))
        print(f"{'none' if figure is None else f'{figure:.1f}':>6}  {path}")


def main():
    options = argparse.ArgumentParser(prog="words", description=__doc__.splitlines()[0])
    options.add_argument("--measure", action="store_true", help="print the readability of each page")
    options.add_argument("files", nargs="*", help="only these files, or files below these folders")
    options = options.parse_args()
    if options.measure:
        return measure(options.files)

    phrases, prose = checks.Phrases(PHRASES), checks.Proselint()
    only = [str(Path(name).resolve().relative_to(ROOT)) for name in options.files]
    texts, number = 0, 0
    for name, blocks in sources():
        if only and not any(name == one or name.startswith(one + "/") for one in only):
            continue
        texts += 1
        findings = findings_of(name, blocks, phrases, prose)
        for line, what, instead in findings:
            print(f"{name}:{line}: {what}: {instead}")
        number += len(findings)
    print(f"words: {number} findings in {texts} texts")
    return number > 0


if __name__ == "__main__":
    sys.exit(main())
