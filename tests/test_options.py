"""The options of both programs are few enough to be read, and each has an example in docs/. What breaks these tests: a second
name for what an option says already, an option without an example, an example with an option that its command does not have."""

import functools
import os
import re
import subprocess
import sys

import harness

# The names of options over `gpumem-analyze`, `gpumem` and their commands.
MOST = 110
OPTION = re.compile(r"^ {2,8}(?:(-\w)(?:,? [\w.…-]+)?, )?(--[a-z][\w-]+)", re.M)
BLOCK = re.compile(r"^ *```(?:console)?\n(.*?)^ *```", re.M | re.S)
EXAMPLE = re.compile(r"^ *(?:\$ )?(gpumem(?:-analyze)?) (.*)$", re.M)
COMMANDS = re.compile(r"^Commands:\n((?:  .*\n)+)", re.M)
OF_PYTHON = ["run", "whatif", "plan", "card list", "card show", "card measure", "fleet query", "fleet sql", "kernel", "doctor"]


def help_of(*command):
    env = {**harness.clean_environment(), "PYTHONPATH": str(harness.ROOT / "python"), "GPUMEM_BUILT": str(harness.BUILT), "COLUMNS": "200"}
    done = subprocess.run([*command, "--help"], capture_output=True, text=True, env={**os.environ, **env})
    assert done.returncode == 0, harness.described(done)
    return done.stdout


@functools.lru_cache(None)
def options():
    """{command: {name: its short form}}: `gpumem-analyze lines`: {`--output`: `-o`, `--at`: ``}."""
    found, left = {}, [[]]
    while left:
        words = left.pop()
        text = help_of(harness.ANALYZER, *words)
        below = COMMANDS.search(text)
        names = re.findall(r"^  ([a-z][a-z-]*)", below[1], re.M) if below else []
        left += [[*words, name] for name in names if name != "help"]
        found[" ".join(["gpumem-analyze", *words])] = {name: short for short, name in OPTION.findall(text)}
    for words in OF_PYTHON:
        text = help_of(sys.executable, "-m", "gpumem", *words.split())
        found[f"gpumem {words}"] = {name: short for short, name in OPTION.findall(text)}
    return found


def examples():
    """Each command line in a block of the documentation: its page, its command, and its options."""
    for page in [harness.ROOT / "README.md", *sorted((harness.ROOT / "docs").rglob("*.md"))]:
        for block in BLOCK.findall(page.read_text()):
            for program, line in EXAMPLE.findall(block.replace("\\\n", " ")):
                words = re.split(r" (?:--|[|>&].*) ", f"{line.split('  #')[0]} ")[0].split()
                command = "gpumem-analyze"
                for end in range(1, 3):
                    for of in (program, "gpumem-analyze"):
                        if f"{of} {' '.join(words[:end])}" in options():
                            command = f"{of} {' '.join(words[:end])}"
                yield page, command, [word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)]


def test_options_are_few():
    found = {}
    for command, names in options().items():
        for name in names:
            found.setdefault(name, []).append(command)
    listed = "\n".join(f"{len(of):2} {name}: {', '.join(sorted(of)[:3])}" for name, of in sorted(found.items(), key=lambda of: len(of[1])))
    assert 80 <= len(found) <= MOST, f"{len(found)} options\n{listed}"


def test_each_option_has_an_example():
    names = {name for of in options().values() for name in of} - {"--help", "--version"}
    shown = set()
    for _, command, words in examples():
        of = options().get(command, {})
        shown |= {name for name, short in of.items() if name in words or short and short in words}
    assert sorted(names - shown) == []


def test_examples_have_options_of_their_commands():
    wrong = []
    for page, command, words in examples():
        of = options().get(command, {})
        # What follows the program of `run` is its own.
        if command != "gpumem run":
            wrong += [f"{page.name}: {command} {word}" for word in words if word not in of and word not in of.values()]
    assert wrong == []
