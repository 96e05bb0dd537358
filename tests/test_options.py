"""The options of both programs are few enough to be read. What breaks this test: a second name for what an option says
already."""

import os
import re
import subprocess
import sys

import harness

# The names of options over `gpumem-analyze`, `gpumem` and their commands.
MOST = 110
OPTION = re.compile(r"^ {2,8}(?:-\w(?:,? [\w.…-]+)?, )?(--[a-z][\w-]+)", re.M)
COMMANDS = re.compile(r"^Commands:\n((?:  .*\n)+)", re.M)
OF_PYTHON = ["run", "whatif", "plan", "card list", "card show", "card measure", "fleet query", "fleet sql", "kernel", "doctor"]


def help_of(*command):
    env = {**harness.clean_environment(), "PYTHONPATH": str(harness.ROOT / "python"), "GPUMEM_BUILT": str(harness.BUILT), "COLUMNS": "200"}
    done = subprocess.run([*command, "--help"], capture_output=True, text=True, env={**os.environ, **env})
    assert done.returncode == 0, harness.described(done)
    return done.stdout


def options():
    """{name: the commands that have it}."""
    found, left = {}, [[]]
    while left:
        words = left.pop()
        text = help_of(harness.ANALYZER, *words)
        below = COMMANDS.search(text)
        names = re.findall(r"^  ([a-z][a-z-]*)", below[1], re.M) if below else []
        left += [[*words, name] for name in names if name != "help"]
        for name in OPTION.findall(text):
            found.setdefault(name, set()).add(" ".join(["gpumem-analyze", *words]))
    for words in OF_PYTHON:
        for name in OPTION.findall(help_of(sys.executable, "-m", "gpumem", *words.split())):
            found.setdefault(name, set()).add(f"gpumem {words}")
    return found


def test_options_are_few():
    found = options()
    listed = "\n".join(f"{len(of):2} {name}: {', '.join(sorted(of)[:3])}" for name, of in sorted(found.items(), key=lambda of: len(of[1])))
    assert 80 <= len(found) <= MOST, f"{len(found)} options\n{listed}"
