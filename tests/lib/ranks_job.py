"""A job of ranks some of which are planted, recorded once for all tests that look at it."""

import fcntl
import os

import harness

JOB = harness.WORKLOADS / "ranks.py"
WORLD = int(os.environ.get("GPUMEM_RANKS_WORLD", "16"))
PLANTS = {3: "leak:6", 5: "layer", 9: "batch", 11: "outside", 12: "oom:7", 13: "kill:9"}
DIFFER = {rank for rank, what in PLANTS.items() if what.partition(":")[0] in ("leak", "layer", "batch", "outside")}


def line_of(script, text):
    """Where a line of the program's is, as tables name it."""
    [number] = [number for number, line in enumerate(script.read_text().splitlines(), 1) if text in line]
    return f"{script}:{number}"


def recorded(python, shared):
    """The captures' folder. Workers that share a folder of a session record them once."""
    folder = shared / "ranks"
    with open(shared / "ranks.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            folder.mkdir()
            plants = [word for rank, what in PLANTS.items() for word in ("--plant", f"{rank}={what}")]
            command = [python, JOB, str(WORLD), *plants]
            harness.simulate(command, cwd=folder, preload=True, env={"GPUMEM_QUIET": "1"}, check=False)
    assert len(list(folder.glob("report.rank*.bin"))) == WORLD
    return folder
