"""Imports PyTorch once, then runs programs, each in a fork of this process (tests/lib/forks.py).

A line on stdin is a program: {"argv": [FILE, …] or ["-c", TEXT, …], "cwd": …, "env": {…}, "stdout": FILE}; the
answer is its exit code. stderr stays this process's, because the recorder writes to no other file. Until a program uses CUDA, neither the recorder nor PyTorch has state that a fork would inherit."""

import contextlib
import json
import os
import runpy
import sys

import torch  # noqa: F401

with contextlib.suppress(ImportError):
    # The first optimizer imports it, which takes a second.
    import torch._dynamo  # noqa: F401


def prepare(program):
    """Makes this process look as if it had been started for the program."""
    os.chdir(program["cwd"])
    for name, value in program["env"].items():
        os.environ.pop(name, None) if value is None else os.environ.update({name: value})
    for number, name, flags in ((0, os.devnull, 0), (1, program["stdout"], os.O_WRONLY | os.O_CREAT)):
        file = os.open(name, flags, 0o644)
        os.dup2(file, number)
        os.close(file)
    sys.argv = program["argv"] if program["argv"][0] != "-c" else ["-c", *program["argv"][2:]]
    folders = program["env"].get("PYTHONPATH") or ""
    sys.path[:1] = [os.path.dirname(program["argv"][0]), *filter(None, folders.split(":"))]


for line in sys.stdin:
    child = os.fork()
    if child == 0:
        break
    status = os.waitpid(child, 0)[1]
    print(-os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status), flush=True)
else:
    os._exit(0)

program = json.loads(line)
prepare(program)
if program["argv"][0] == "-c":
    exec(compile(program["argv"][1], "<string>", "exec"), {"__name__": "__main__"})
else:
    runpy.run_path(program["argv"][0], run_name="__main__")
